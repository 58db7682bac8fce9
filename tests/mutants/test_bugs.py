"""The planted bugs fit the code of today, survive its moves, and what does not fit or proves nothing is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.attacking import Attack, Outcome, read_report
from tests.mutants.bugs import Bug, Change, Code, StaleBug, load_all
from tests.mutants.copies import REPOSITORY
from tests.mutants.reach import functions_of

CODE = """\
LIMIT = 3


class Session:
    size: int = 1

    def open(self) -> None:
        if LIMIT:
            self.size = 2

            self.size = 3
        self.size = 4


def open_all() -> None:
    Session().open()
"""
CHANGE = {"place": "Session.open", "old": "self.size = 2\n", "new": "self.size = 9\n"}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "sessiond" / "room").mkdir(parents=True)
    (tmp_path / "sessiond" / "room" / "session.py").write_text(CODE)
    return tmp_path


def changed(tree: Path, *changes: dict[str, str]) -> str:
    bug = Bug("it", "1, nothing", "there is one", [Change(**one) for one in changes])
    (text,) = bug.planted(Code(tree)).values()
    return text


def test_each_planted_bug_fits_the_code() -> None:
    code = Code(REPOSITORY)
    bugs = load_all()
    assert len(bugs) >= 330
    for bug in bugs:
        assert bug.planted(code)


def test_each_planted_bug_has_a_test_that_finds_it() -> None:
    named = {bug.name: functions_of(bug.found_by, REPOSITORY) for bug in load_all()}
    assert [name for name, tests in named.items() if not tests] == []


def test_a_place_survives_a_move(tree: Path) -> None:
    wanted = CODE.replace("self.size = 2", "self.size = 9")
    assert changed(tree, CHANGE) == wanted
    other = tree / "sessiond" / "elsewhere"
    other.mkdir()
    (tree / "sessiond" / "room" / "session.py").rename(other / "moved.py")
    assert changed(tree, CHANGE) == wanted
    deeper = CODE.replace("        if LIMIT:", "        while True:\n          if LIMIT:")
    deeper = deeper.replace("            self.size", "              self.size")
    (other / "moved.py").write_text(deeper)
    assert changed(tree, CHANGE) == deeper.replace("self.size = 2", "self.size = 9")


def test_a_module_tells_two_places_of_one_name_apart(tree: Path) -> None:
    (tree / "sessiond" / "other.py").write_text(CODE)
    with pytest.raises(StaleBug, match="are there 2 times"):
        changed(tree, CHANGE)
    assert changed(tree, CHANGE | {"place": "other: Session.open"})


@pytest.mark.parametrize(
    ("place", "old", "new"),
    [
        ("LIMIT", "LIMIT = 3", "LIMIT = 4"),
        ("Session.size", "size: int = 1", "size: int = 2"),
        ("Session", "size: int = 1", "size: int = 2"),
        ("session:", "LIMIT = 3", "LIMIT = 4"),
        ("open_all", "Session().open()", "pass"),
    ],
)
def test_a_place_is_a_function_a_class_a_constant_or_a_module(
    tree: Path, place: str, old: str, new: str
) -> None:
    assert changed(tree, {"place": place, "old": old, "new": new}) == CODE.replace(old, new)


def test_a_file_that_is_no_python_is_a_place(tree: Path) -> None:
    (tree / "clients").mkdir()
    (tree / "clients" / "call.ts").write_text("  return 1;\n")
    change = {"place": "call.ts", "old": "return 1;", "new": "return 2;"}
    assert changed(tree, change) == "  return 2;\n"


def test_several_changes_are_made_one_behind_the_other(tree: Path) -> None:
    again = {"place": "Session.open", "old": "self.size = 9", "new": "self.size = 7"}
    assert changed(tree, CHANGE, again) == CODE.replace("self.size = 2", "self.size = 7")


def test_lines_may_be_taken_out_and_empty_lines_may_stand_between(tree: Path) -> None:
    change = {"place": "Session.open", "old": "\nself.size = 2\n\nself.size = 3\n", "new": "pass"}
    taken = CODE.replace("self.size = 2\n\n            self.size = 3", "pass")
    assert changed(tree, change) == taken
    change = {"place": "Session.open", "old": "self.size = 3", "new": ""}
    assert changed(tree, change) == CODE.replace("            self.size = 3\n", "")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"old": "self.size = 5"}, "are there 0 times"),
        ({"place": "Session.close"}, "are there 0 times"),
        ({"place": "Session", "old": "self.size"}, "are there 0 times"),
        ({"new": "self.size = ("}, "is no Python then"),
        ({"new": "self.size = _two_of(1)"}, "defines no _two_of any more"),
        ({"new": "self.size = 2"}, "changes nothing"),
        ({"old": "\n"}, "changes nothing"),
    ],
)
def test_a_change_that_does_not_fit_is_told(tree: Path, change: dict[str, str], words: str) -> None:
    with pytest.raises(StaleBug, match=words):
        changed(tree, CHANGE | change)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[it]\nbreaks = '1'\n", "missing required field `bug`"),
        ("[it]\nbreaks = '1'\nbug = 'b'\nfile = 'x'\nchange = []\n", "unknown field `file`"),
    ],
)
def test_a_bug_that_is_none_is_told(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "it.toml").write_text(text)
    with pytest.raises(StaleBug, match=words):
        load_all(tmp_path)


@pytest.mark.parametrize(
    ("cases", "attack"),
    [
        ("<testcase name='a'/>", Attack(Outcome.HELD)),
        (
            "<testcase classname='x.test_y' name='b[c]'><failure message='1 is\n2'/></testcase>",
            Attack(Outcome.VIOLATION, "test_y::b", "1 is 2"),
        ),
        (
            "<testcase classname='x.test_y.Z' name='a'><error message='failed on teardown'/></testcase>",
            Attack(Outcome.VIOLATION, "test_y::Z::a", "failed on teardown"),
        ),
        (
            "<testcase classname='test_y' name='a'><error message='failed on setup'/></testcase>",
            Attack(Outcome.NOT_RUN, "test_y::a", "failed on setup"),
        ),
        (
            "<testcase classname='test_y' name='b'><skipped message='no strace'/></testcase>",
            Attack(Outcome.NOT_RUN, "test_y::b", "no strace"),
        ),
        ("", Attack(Outcome.NOT_RUN, said="there is no such test")),
    ],
)
def test_a_violation_is_a_test_that_failed_and_nothing_else(
    tmp_path: Path, cases: str, attack: Attack
) -> None:
    report = tmp_path / "report.xml"
    report.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    assert read_report(report) == attack
