"""The outcome of an attack on a planted bug.

Law: a violation is a finding of a test: the test failed, its teardown failed, or the test hung. A test that
cannot start, or that fails in code that the bug left broken, has caught nothing.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from xml.etree import ElementTree

from msgspec import Struct

from tests.mutants.copies import Copy

__all__ = ["Attack", "Outcome", "attack", "read_report"]

PATIENCE_SECONDS: Final = 900
HANG_SECONDS: Final = 60
# The same examples in every run, and no search for a smaller one: a violation is all that is asked.
PYTEST: Final = (
    *("-m", "pytest", "-v", "-x", "--tb=short", "-p", "no:randomly", "-p", "no:cacheprovider"),
    *("--hypothesis-profile=attack", f"--timeout={HANG_SECONDS}"),
)
_SAID_MAX: Final = 160
# What a bug breaks that was written for other code: it was not the promise.
_BROKEN: Final = re.compile(
    r"\b((?:Name|UnboundLocal|Syntax|Indentation|Import|ModuleNotFound)Error: .*)"
)
_TEST: Final = re.compile(r"^\S*/(\w+)\.py::([^\s\[]+)", re.MULTILINE)
_HUNG: Final = re.compile(r"^\++ Timeout \++$", re.MULTILINE)


class Outcome(Enum):
    """The ways in which an attack can end."""

    HELD = "held"
    VIOLATION = "violation"
    NOT_RUN = "not run"


class Attack(Struct, frozen=True):
    """An attack that is over."""

    outcome: Outcome
    test: str = ""
    """Test that found a violation or could not run, as `module::function`."""
    said: str = ""
    """The violation, or the reason why there was no attack, in a line."""


def attack(copy: Copy, tests: Sequence[str], marks: str) -> Attack:
    """Run tests on the code of a copy up to the first that fails; `marks` says which ones may run."""
    with TemporaryDirectory(dir=copy.folder) as folder:
        report = Path(folder, "report.xml")
        words = [f"--junitxml={report}", f"--basetemp={folder}/tmp", "-m", marks]
        try:
            done = subprocess.run(
                [copy.python, *PYTEST, *words, *tests],
                cwd=copy.tree,
                env=copy.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=PATIENCE_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Attack(Outcome.NOT_RUN, said=f"no end after {PATIENCE_SECONDS} s")
        finally:
            copy.end_processes()
        said = done.stdout.decode("utf-8", "replace")
        if broken := _BROKEN.search(said):
            return Attack(Outcome.NOT_RUN, said=f"the code is broken: {_line(broken[1])}")
        if hung := _HUNG.search(said):
            *_, last = _TEST.finditer(said[: hung.start()])
            name = f"{last[1]}::{last[2]}"
            return Attack(Outcome.VIOLATION, name, f"no end after {HANG_SECONDS} s")
        if done.returncode not in {0, 1, 5} or not report.exists():
            code = done.returncode
            return Attack(Outcome.NOT_RUN, said=f"exit code {code}: {_line(said[-_SAID_MAX:])}")
        return read_report(report)


def read_report(report: Path) -> Attack:
    """Return the outcome in pytest's report of a run, with its first violation."""
    held = 0
    skipped = Attack(Outcome.NOT_RUN, said="there is no such test")
    for case in ElementTree.parse(report).iter("testcase"):
        owner = case.get("classname", "").split(".")
        first = next((n for n, part in enumerate(owner) if part.startswith("test_")), 0)
        name = "::".join([*owner[first:], case.get("name", "").partition("[")[0]])
        bad, error, skip = case.find("failure"), case.find("error"), case.find("skipped")
        if bad is None and error is not None and _text(error).startswith("failed on teardown"):
            bad = error
        if bad is not None:
            return Attack(Outcome.VIOLATION, name, _line(_text(bad)))
        if error is not None:
            return Attack(Outcome.NOT_RUN, name, _line(_text(error)))
        if skip is not None:
            skipped = Attack(Outcome.NOT_RUN, name, _line(_text(skip)))
        held += skip is None
    # A run that passes over its tests proves nothing.
    return Attack(Outcome.HELD) if held else skipped


def _text(found: ElementTree.Element) -> str:
    return found.get("message", "")


def _line(text: str) -> str:
    return " ".join(text.split())[:_SAID_MAX]
