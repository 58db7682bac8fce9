"""Who attacks, and what came of an attack.

Law: a violation is what an attacker says after it has looked: a test that failed, or
that could not end well. One that cannot begin, hangs or breaks has caught nothing.
"""

from __future__ import annotations

import re
import subprocess
from enum import Enum
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from msgspec import Struct

from tests.mutants.copies import Copy

__all__ = ["ATTACKERS", "Attack", "Attacker", "Outcome", "read_report", "run"]

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


class Attacker(Struct, frozen=True):
    """Tests that attack a promise from outside."""

    name: str
    how: str
    tests: tuple[str, ...]


class Outcome(Enum):
    """What an attack ended with."""

    HELD = "held"
    VIOLATION = "violation"
    NOT_RUN = "not run"


class Attack(Struct, frozen=True):
    """An attack that is over. `said` is the violation, or why there was no attack, in a line."""

    outcome: Outcome
    said: str = ""


def run(attacker: Attacker, copy: Copy) -> Attack:
    """Attack the code of a copy."""
    report = copy.folder / "report.xml"
    report.unlink(missing_ok=True)
    places = [f"--junitxml={report}", f"--basetemp={copy.folder / 'tmp'}"]
    with (copy.folder / "said").open("w+b") as said:
        process = subprocess.Popen(
            [copy.python, *PYTEST, *places, *attacker.tests],
            cwd=copy.tree,
            env=copy.environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
        )
        try:
            code = process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            return Attack(Outcome.NOT_RUN, f"no end after {PATIENCE_SECONDS} s")
        finally:
            process.kill()
            process.wait()
            copy.end_processes()
        said.seek(0)
        words = said.read().decode("utf-8", "replace")
    if broken := _BROKEN.search(words):
        return Attack(Outcome.NOT_RUN, f"the code is broken: {_line(broken[1])}")
    if code not in {0, 1} or not report.exists():
        return Attack(Outcome.NOT_RUN, f"exit code {code}: {_line(words[-_SAID_MAX:])}")
    return read_report(report)


def read_report(report: Path) -> Attack:
    """What pytest says of a run, its first violation in particular."""
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


# Of tests that run on both backends, the half on the one that production runs on.
_ONCE: Final = ("-k", "asyncio")

ATTACKERS: Final = (
    Attacker(
        "crash-model",
        "a journal lives on a disk that loses power, is full and fails, in any order",
        ("tests/crash/test_model.py",),
    ),
    Attacker(
        "every-fault",
        "each call of a journal into the disk fails once",
        ("tests/crash/test_faults.py",),
    ),
    Attacker(
        "service-faults",
        "each call into the disk fails once under every method",
        ("tests/crash/test_service_faults.py", *_ONCE),
    ),
    Attacker(
        "waiting-disk",
        "clients look at everything while the disk works on an entry, and when it fails",
        ("tests/service/test_durability.py", *_ONCE),
    ),
    Attacker(
        "kills",
        "eight processes append and five watch while their daemon is killed twenty times",
        ("tests/torture/test_endings.py", "-k", "kills"),
    ),
    Attacker(
        "random-requests",
        "bursts of random requests, kills in between, every session compared with what it may be",
        ("tests/processes/test_random_sessions.py",),
    ),
    Attacker(
        "conformance",
        "the kit for clients, all its cases against a daemon",
        ("tests/interop/test_conformance.py", "-k", "both_framings and ndjson"),
    ),
    Attacker(
        "slow-readers",
        "subscribers that resume, that read slowly and that do not read",
        ("tests/service/test_subscriptions.py", *_ONCE),
    ),
    Attacker(
        "damaged-files",
        "files with every kind of damage are opened, and opened again",
        ("tests/service/test_files.py", *_ONCE),
    ),
    Attacker(
        "signals",
        "signals and presence, and who misses them",
        ("tests/service/test_signals.py", *_ONCE),
    ),
    Attacker(
        "group-commit",
        "appends that wait together, are cancelled, and are too many",
        ("tests/service/test_group_commit.py", *_ONCE),
    ),
    Attacker(
        "limits",
        "clients that leave no room to others",
        ("tests/service/test_holdings.py", *_ONCE),
    ),
    Attacker(
        "privacy",
        "what a umask of 0 and a log may show of a message",
        ("tests/processes/test_privacy.py",),
    ),
    Attacker(
        "syscalls",
        "strace counts what a batch costs the disk",
        ("tests/processes/test_syscalls.py",),
    ),
    Attacker(
        "two-daemons",
        "a second process wants the profile, or a session's file",
        ("tests/processes/test_life.py", "tests/crash/test_processes.py", "-k", "second"),
    ),
)
