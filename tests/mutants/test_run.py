"""Runs of planted bugs: two are found in every run, and what nobody finds is reported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.mutants.copies import REPOSITORY
from tests.mutants.run import Tried

pytestmark = pytest.mark.slow

FINDER = "test_append_faults::test_a_refused_batch_leaves_memory_and_the_reopened_file_as_they_were"
BUG = """
[{name}]
breaks = "nothing"
bug = "{name}"
found_by = ["{finder}"]

[[{name}.change]]
place = "JournalWriter._refuse"
old = "self.failures += 1"
new = "self.failures += {count}"
"""


def mutants(*arguments: str) -> tuple[int, list[Tried], str]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutants.run", "--json", *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    tried = msgspec.json.decode(done.stdout, type=list[Tried]) if done.stdout else []
    return done.returncode, tried, done.stderr


@pytest.mark.search
def test_two_that_are_quick_to_find_are_found() -> None:
    names = ("a-sync-per-append", "agent-log-not-kept")
    code, tried, _ = mutants(*names)
    assert [(one.bug, one.outcome) for one in tried] == [(name, "caught") for name in names], tried
    assert code == 0


def test_what_no_test_finds_and_what_is_no_code_fail(tmp_path: Path) -> None:
    bugs = (("broken", "__import__('no_such')"), ("harmless", "2"))
    text = "".join(BUG.format(name=name, count=count, finder=FINDER) for name, count in bugs)
    (tmp_path / "them.toml").write_text(text)
    code, tried, _ = mutants("--folder", str(tmp_path))
    assert [(one.bug, one.outcome) for one in tried] == [
        ("broken", "not tried"),
        ("harmless", "survived"),
    ], tried
    assert "ModuleNotFoundError" in tried[0].said
    assert code == 1


def test_the_tree_says_which_ones_have_their_turn(tmp_path: Path) -> None:
    text = "".join(
        BUG.format(name=name, count=2, finder="test_none::test_at_all") for name in "abc"
    )
    (tmp_path / "them.toml").write_text(text)
    words = ("--folder", str(tmp_path), "--most", "1")
    _, first, said = mutants(*words)
    _, second, _ = mutants(*words)
    assert [one.bug for one in first] == [one.bug for one in second]
    assert len(first) == 1
    left_out = ", ".join(name for name in "abc" if name != first[0].bug)
    assert f"left out, for 1 have their turn on this tree: {left_out}" in said


def test_a_stale_bug_is_an_error(tmp_path: Path) -> None:
    text = BUG.format(name="stale", count=2, finder=FINDER)
    (tmp_path / "it.toml").write_text(text.replace("failures += 1", "failures += 7"))
    code, tried, said = mutants("--folder", str(tmp_path))
    assert (code, tried) == (1, [])
    assert "stale: in JournalWriter" in said
    assert "are there 0 times" in said
