"""The outcome of an attack.

Law: a violation is a finding of an attacker: a test that failed, or whose teardown failed. An
attacker that cannot start, hangs or crashes has caught nothing.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Final
from xml.etree import ElementTree

import msgspec
from msgspec import Struct

from tests.mutants.attackers import Attacker
from tests.mutants.copies import Copy

__all__ = ["Attack", "Outcome", "read_report", "run"]

PATIENCE_SECONDS: Final = 300
# The same examples in every run, and no search for a smaller one: a violation is all that is asked.
PYTEST: Final = (
    *("-m", "pytest", "-q", "-x", "--tb=short", "-p", "no:randomly", "-p", "no:cacheprovider"),
    *("-m", "slow or not slow", "--hypothesis-profile=attack"),
)
_SAID_MAX: Final = 160
# What a patch breaks that was written for other code: it was not the promise.
_BROKEN: Final = re.compile(
    r"\b((?:Name|UnboundLocal|Syntax|Indentation|Import|ModuleNotFound)Error: .*)"
)


class Outcome(Enum):
    """The ways in which an attack can end."""

    HELD = "held"
    VIOLATION = "violation"
    NOT_RUN = "not run"


class Attack(Struct, frozen=True):
    """An attack that is over. `said` is the violation, or why there was no attack, in a line."""

    outcome: Outcome
    said: str = ""


class _Found(Struct):
    violations: list[str]


def run(attacker: Attacker, copy: Copy) -> Attack:
    """Attack the code of a copy."""
    with TemporaryDirectory(dir=copy.folder) as folder:
        try:
            if attacker.program:
                return _run_program(attacker, copy, folder)
            return _run_tests(attacker, copy, folder)
        except subprocess.TimeoutExpired:
            return Attack(Outcome.NOT_RUN, f"no end after {PATIENCE_SECONDS} s")


def _run_program(attacker: Attacker, copy: Copy, folder: str) -> Attack:
    """Run a program that prints its findings as JSON and exits with 0 if there are none."""
    code, answer, words = _ended(copy, ["-m", *attacker.program, "--folder", folder])
    if broken := _BROKEN.search(words):
        return Attack(Outcome.NOT_RUN, f"the code is broken: {_line(broken[1])}")
    try:
        violations = msgspec.json.decode(answer, type=_Found).violations
    except msgspec.DecodeError:
        return Attack(Outcome.NOT_RUN, f"exit code {code}: {_line(words[-_SAID_MAX:])}")
    if bool(code) != bool(violations):
        return Attack(Outcome.NOT_RUN, f"exit code {code} for {len(violations)} violations")
    return Attack(Outcome.VIOLATION, _line(violations[0])) if violations else Attack(Outcome.HELD)


def _run_tests(attacker: Attacker, copy: Copy, folder: str) -> Attack:
    report = Path(folder, "report.xml")
    places = [f"--junitxml={report}", f"--basetemp={folder}/tmp"]
    code, answer, _ = _ended(copy, [*PYTEST, *places, *attacker.tests])
    words = answer.decode("utf-8", "replace")
    if broken := _BROKEN.search(words):
        return Attack(Outcome.NOT_RUN, f"the code is broken: {_line(broken[1])}")
    if code not in {0, 1} or not report.exists():
        return Attack(Outcome.NOT_RUN, f"exit code {code}: {_line(words[-_SAID_MAX:])}")
    return read_report(report)


def _ended(copy: Copy, words: Sequence[str]) -> tuple[int, bytes, str]:
    """Exit code, standard output and standard error of a Python of the copy."""
    with TemporaryFile() as out, TemporaryFile() as err:
        process = subprocess.Popen(
            [copy.python, *words],
            cwd=copy.tree,
            env=copy.environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
        )
        try:
            code = process.wait(PATIENCE_SECONDS)
        finally:
            process.kill()
            process.wait()
            copy.end_processes()
        out.seek(0)
        err.seek(0)
        return code, out.read(), err.read().decode("utf-8", "replace")


def read_report(report: Path) -> Attack:
    """Return the outcome in pytest's report of a run, with its first violation."""
    held = 0
    skipped = ""
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        bad, error, skip = case.find("failure"), case.find("error"), case.find("skipped")
        if bad is None and error is not None and _text(error).startswith("failed on teardown"):
            bad = error
        if bad is not None:
            return Attack(Outcome.VIOLATION, _line(f"{name}: {_text(bad)}"))
        if error is not None:
            return Attack(Outcome.NOT_RUN, _line(f"{name}: {_text(error)}"))
        if skip is not None:
            skipped = _line(f"{name}: {_text(skip)}")
        held += skip is None
    if skipped or not held:
        # An attacker that passes over its attacks proves nothing.
        return Attack(Outcome.NOT_RUN, skipped or "there is no such test")
    return Attack(Outcome.HELD)


def _text(found: ElementTree.Element) -> str:
    return found.get("message", "")


def _line(text: str) -> str:
    return " ".join(text.split())[:_SAID_MAX]
