"""The patches fit the code of today, and what does not fit, or proves nothing, is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.attackers import ATTACKERS
from tests.mutants.attacking import Attack, Outcome, read_report
from tests.mutants.copies import REPOSITORY
from tests.mutants.patches import Mutant, StalePatch, load, load_all

TEXT = "one = 1\ntwo = 2\n\nthree = 3\ntwo = 2\n"
PATCH = """\
Breaks: 1, nothing
Bug: there is one
Attackers: crash-model, torture
--- a/code.py
+++ b/code.py
@@ -1,2 +1,2 @@
 one = 1
-two = 2
+two = 3
"""


@pytest.mark.parametrize("mutant", load_all(), ids=lambda mutant: mutant.name)
def test_a_patch_fits_the_code_and_names_who_finds_it(mutant: Mutant) -> None:
    assert mutant.planted(REPOSITORY)
    assert not set(mutant.attackers) - {attacker.name for attacker in ATTACKERS}


def test_an_attacker_attacks_and_has_something_to_find() -> None:
    for attacker in ATTACKERS:
        places = attacker.tests or [f"{attacker.program[0].replace('.', '/')}.py"]
        assert (REPOSITORY / places[0].partition("::")[0]).is_file(), attacker
    # Of two attackers with one name only the last would run.
    names = [attacker.name for attacker in ATTACKERS]
    assert len(names) == len(set(names))
    needed = {name for mutant in load_all() for name in mutant.attackers}
    assert sorted(set(names) - needed) == []


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "code.py").write_text(TEXT)
    return tmp_path


def changed(tree: Path, patch: str) -> str:
    (tree / "it.patch").write_text(patch)
    (text,) = load(tree / "it.patch").planted(tree).values()
    return text


def test_a_hunk_is_found_by_its_lines_wherever_they_are(tree: Path) -> None:
    assert changed(tree, PATCH) == TEXT.replace("two = 2", "two = 3", 1)
    (tree / "code.py").write_text(f"zero = 0\n{TEXT}")
    assert changed(tree, PATCH) == f"zero = 0\n{TEXT}".replace("two = 2", "two = 3", 1)
    assert (tree / "code.py").read_text() == f"zero = 0\n{TEXT}"


def test_an_empty_line_may_have_lost_its_blank(tree: Path) -> None:
    patch = PATCH.replace("-1,2 +1,2", "-3,2 +3,1").replace(" one = 1\n", "\n")
    patch = patch.replace("-two = 2\n+two = 3\n", "-three = 3\n")
    assert changed(tree, patch) == "one = 1\ntwo = 2\n\ntwo = 2\n"


def test_the_heading_of_a_patch_is_read(tree: Path) -> None:
    (tree / "it.patch").write_text(PATCH)
    mutant = load(tree / "it.patch")
    assert (mutant.name, mutant.breaks, mutant.bug) == ("it", "1, nothing", "there is one")
    assert mutant.attackers == ["crash-model", "torture"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (" one = 1\n", " one = 2\n", "are there 0 times"),
        ("-1,2 +1,2 @@\n one = 1\n", "-1 +1 @@\n", "are there 2 times"),
        ("+two = 3\n", "+two = (\n", "is no Python then"),
        ("+two = 3\n", "+two = (lambda: _two_of(one))\n", "defines no _two_of any more"),
        ("+two = 3\n", "+two = 2\n", "changes nothing"),
        ("-1,2 +1,2", "-1,2 +1,3", "does not say what follows"),
        ("+two = 3\n", "+two = 3\n!\n", "does not say what follows"),
        ("a/code.py", "a/none.py", "is changed, not made"),
        ("code.py", "none.py", "there is no none.py any more"),
        ("Bug: ", "Bugs: ", "it begins with Breaks, Bug, Attackers"),
        ("@@ -1,2 +1,2 @@\n", "", "is changed, not made"),
    ],
)
def test_a_patch_that_is_none_or_does_not_fit_is_told(
    tree: Path, old: str, new: str, words: str
) -> None:
    with pytest.raises(StalePatch, match=words):
        changed(tree, PATCH.replace(old, new))


@pytest.mark.parametrize(
    ("cases", "attack"),
    [
        ("<testcase name='a'/>", Attack(Outcome.HELD)),
        (
            "<testcase classname='x.y' name='b'><failure message='1 is\n2'/></testcase>",
            Attack(Outcome.VIOLATION, "y::b: 1 is 2"),
        ),
        (
            "<testcase name='a'><error message='failed on teardown: a bug'/></testcase>",
            Attack(Outcome.VIOLATION, "::a: failed on teardown: a bug"),
        ),
        (
            "<testcase name='a'><error message='failed on setup'/></testcase>",
            Attack(Outcome.NOT_RUN, "::a: failed on setup"),
        ),
        (
            "<testcase name='a'/><testcase name='b'><skipped message='no strace'/></testcase>",
            Attack(Outcome.NOT_RUN, "::b: no strace"),
        ),
        ("", Attack(Outcome.NOT_RUN, "there is no such test")),
    ],
)
def test_a_violation_is_a_test_that_failed_and_nothing_else(
    tmp_path: Path, cases: str, attack: Attack
) -> None:
    report = tmp_path / "report.xml"
    report.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    assert read_report(report) == attack
