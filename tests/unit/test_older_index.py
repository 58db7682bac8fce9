"""A search index of another version: it is asked until today's has all sessions, and goes before what it must not have."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sessiond.catalog import guarded
from sessiond.catalog.fulltext import Addition, Indexed, Text, TextIndex
from sessiond.catalog.guarded import read_only
from sessiond.catalog.matching import match_of
from sessiond.errors import StorageError
from sessiond.model.searched import Part, Searched

NAMES = [f"session-{number}" for number in range(4)]


def put(index: TextIndex, name: str, word: str, part: Part = Part.MESSAGE) -> None:
    text = Text(1, "e1", Searched(part, f"needle {word}", "user", "", ""))
    index.put([Addition(name, Indexed("epoch", 1, 100), [text], anew=True)])


def hits(index: TextIndex, query: str = "needle") -> list[str]:
    match = match_of(query)
    assert match is not None
    return sorted(found.session_id for found, _ in index.find(match, {*NAMES}.__and__, 10))


def version(path: Path) -> int:
    found: int
    (found,) = read_only(path, lambda one: one.execute("PRAGMA user_version").fetchone())
    return found


def age(path: Path, *statements: str) -> None:
    """Make an index one of another version."""
    with closing(sqlite3.connect(path)) as connection:
        for statement in (*statements, "PRAGMA user_version = 69000"):
            connection.execute(statement)
        connection.commit()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of an older index, whose sessions have a word "qjzxoldword"."""
    path = tmp_path / "search.sqlite"
    index = TextIndex(path, pytest.fail)
    for name in NAMES[:3]:
        put(index, name, "qjzxoldword")
    index.close()
    age(path)
    return path


@pytest.fixture
def opened(path: Path) -> Iterator[Callable[[], TextIndex]]:
    """Return a function that opens the index as the next daemon does, behind a kill of the one before."""
    made = list[TextIndex]()

    def again() -> TextIndex:
        made.append(TextIndex(path, pytest.fail))
        return made[-1]

    yield again
    for index in made:
        index.close()


def in_files(path: Path) -> bool:
    return any(b"qjzxoldword" in one.read_bytes() for one in path.parent.iterdir())


def test_the_older_index_answers_for_what_todays_does_not_have_yet(
    path: Path, opened: Callable[[], TextIndex]
) -> None:
    index = opened()
    assert index.indexed() == {}
    assert hits(index) == NAMES[:3]
    put(index, NAMES[0], "new")
    put(index, NAMES[3], "new")
    assert hits(index) == NAMES
    assert hits(index, "qjzxoldword") == NAMES[1:3]
    assert hits(index, "new") == [NAMES[0], NAMES[3]]
    assert version(path) == 69_000


def test_what_is_made_goes_on_behind_a_kill_and_takes_the_place(
    path: Path, opened: Callable[[], TextIndex]
) -> None:
    put(opened(), NAMES[0], "new")
    index = opened()
    assert index.indexed().keys() == {NAMES[0]}
    assert hits(index) == NAMES[:3]
    for name in NAMES[1:]:
        put(index, name, "new")
    index.take_place()
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    assert version(path) > 69_000
    assert not in_files(path)
    for each in (index, opened()):
        assert (hits(each), sorted(each.indexed()), each.is_beside) == (NAMES, NAMES, False)


@pytest.mark.parametrize("step", range(3))
def test_a_kill_at_any_step_leaves_an_index(
    path: Path, opened: Callable[[], TextIndex], monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    index, steps, remove, replace = opened(), 0, guarded.remove_files, Path.replace
    for name in NAMES:
        put(index, name, "new")

    def killed() -> None:
        nonlocal steps
        steps += 1
        if steps == step + 1:
            raise KeyboardInterrupt

    def remove_files(of: Path, *, keep: bool = False) -> None:
        killed()
        remove(of, keep=keep)

    def renamed(of: Path, to: Path) -> Path:
        killed()
        return replace(of, to)

    with monkeypatch.context() as patch:
        patch.setattr(guarded, "remove_files", remove_files)
        patch.setattr(Path, "replace", renamed)
        with pytest.raises(KeyboardInterrupt):
            index.take_place()
    again = opened()
    assert again.indexed().keys() == {*NAMES}
    assert hits(again) == NAMES
    again.take_place()
    assert version(path) > 69_000
    assert hits(opened()) == NAMES


def test_an_index_that_another_process_reads_takes_no_place_yet(
    path: Path, opened: Callable[[], TextIndex]
) -> None:
    index = opened()
    put(index, NAMES[0], "new")
    with closing(sqlite3.connect(f"{path}.next", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM entries").fetchone()
        put(index, NAMES[1], "new")
        with pytest.raises(StorageError, match="another process"):
            index.take_place()
        assert version(path) == 69_000
    assert hits(index) == NAMES[:3]
    index.take_place()
    assert version(path) > 69_000
    assert hits(index) == NAMES[:2]


@pytest.mark.parametrize("is_purged", [True, False])
def test_an_older_index_goes_with_the_words_that_have_to_go(
    path: Path, opened: Callable[[], TextIndex], is_purged: bool
) -> None:
    index = opened()
    put(index, NAMES[0], "new")
    index.purge(NAMES[3])
    index.keep_older_of({*NAMES})
    assert in_files(path)
    if is_purged:
        index.purge(NAMES[2])
    else:
        index.keep_older_of({*NAMES[:2]})
    assert not in_files(path)
    assert hits(index) == hits(opened()) == [NAMES[0]]
    index.take_place()
    assert hits(opened()) == [NAMES[0]]


def test_an_older_index_goes_with_outputs_that_are_not_to_be_searched(
    tmp_path: Path, path: Path, opened: Callable[[], TextIndex]
) -> None:
    index = opened()
    index.leave_older(NAMES, outputs=True)
    assert in_files(path)
    put(index, NAMES[0], "qjzxoldword", Part.OUTPUT)
    index.take_place()
    index.close()
    age(tmp_path / "search.sqlite")
    index = opened()
    index.leave_older(NAMES[1:], outputs=True)
    assert in_files(path)
    index.leave_older(NAMES, outputs=True)
    assert not in_files(path)


def test_an_older_index_of_other_tables_has_no_hits(
    path: Path, opened: Callable[[], TextIndex]
) -> None:
    age(path, "ALTER TABLE entries RENAME TO lines")
    index = opened()
    assert hits(index) == []
    put(index, NAMES[0], "new")
    assert hits(index) == [NAMES[0]]
    index.purge(NAMES[0])
    assert hits(index) == []
