"""Runs of planted bugs: CI finds two of them in every run, and an unfound bug is reported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.mutants.run import Tried

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, str(Path(__file__).with_name("run.py"))]
PATCH = """\
Breaks: nothing
Bug: {bug}
Attackers: every-fault
--- a/sessiond/journal/writer.py
+++ b/sessiond/journal/writer.py
@@ -1 +1 @@
-        self.failures += 1
+        self.failures += {count}
"""


def mutants(*arguments: str) -> tuple[int, list[Tried]]:
    done = subprocess.run(
        [*COMMAND, "--json", *arguments], stdout=subprocess.PIPE, timeout=500, check=False
    )
    return done.returncode, msgspec.json.decode(done.stdout, type=list[Tried])


def test_two_that_are_quick_to_find_are_found() -> None:
    names = ("torn-tail-not-cut", "delete-without-trash")
    code, tried = mutants(*names)
    found = [(one.mutant, one.attacker, one.outcome) for one in tried]
    assert (code, found) == (
        0,
        [(names[0], "crash-model", "caught"), (names[1], "random-requests", "caught")],
    ), tried


def test_what_nobody_finds_and_what_is_no_code_fail(tmp_path: Path) -> None:
    for name, count in (("broken", "__import__('no_such')"), ("harmless", "2"), ("stale", "")):
        patch = PATCH.format(bug=name, count=count)
        if name == "stale":
            patch = patch.replace("self.failures += 1", "self.failures += 7")
        (tmp_path / f"{name}.patch").write_text(patch)
    code, tried = mutants("--folder", str(tmp_path))
    assert code == 1
    outcomes = [(one.mutant, one.outcome) for one in tried]
    assert outcomes == [
        ("broken", "not tried"),
        ("harmless", "survived"),
        ("stale", "not tried"),
    ], tried
    assert "ModuleNotFoundError" in tried[0].said
    assert "are there 0 times" in tried[2].said
