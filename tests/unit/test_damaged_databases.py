"""Databases of the profile, which may be lost: whatever becomes of a file, both go on by the same rules."""

from __future__ import annotations

import errno
import os
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sessiond.catalog.catalog import Catalog
from sessiond.catalog.fulltext import Addition, Indexed, TextIndex
from sessiond.catalog.guarded import GuardedDatabase, read_only
from sessiond.catalog.matching import Match, Phrase
from sessiond.catalog.query import Query
from sessiond.errors import StorageError
from tests.kit.catalogs import (
    become_circle,
    become_folder,
    become_immutable,
    become_pipe,
    become_read_only,
    lose_folder,
)
from tests.kit.long_paths import BEYOND_SQLITE, deep
from tests.unit.test_catalog import stored
from tests.unit.test_search import line

ROWS = 60

LAGOON = Match((Phrase(("lagoon",), is_open=True),))


class CatalogUse:
    """A catalog, as a daemon uses it."""

    in_memory = True
    theft = "DELETE FROM sessions"
    nonsense = (
        "UPDATE meta SET value = 'a word'",
        "UPDATE meta SET value = 9223372036854775807",
        "UPDATE sessions SET info = 7",
        "ALTER TABLE sessions RENAME TO others",
        "DROP TABLE meta",
    )

    def __init__(self, path: Path, told: Callable[[str], None]) -> None:
        self._catalog = Catalog(path, told)
        self.file: GuardedDatabase = self._catalog.file
        self.close = self._catalog.close

    def put(self, number: int, more: str = "") -> None:
        """Store a session."""
        self._catalog.put([stored(number, title=more)])

    def all(self) -> list[int]:
        """Return the stored sessions."""
        self.file.look()
        return sorted(int(known.session_id[-3:]) for known in self._catalog.all())

    def ask_everything(self) -> None:
        """Read what each row has."""
        self._catalog.raise_revision(1)
        self._catalog.page(Query(), 1000, None)
        self._catalog.related("/p", ["session-001"])

    def purge(self, number: int) -> None:
        """Erase a session."""
        self._catalog.put([], [f"session-{number:03}"])
        self._catalog.erase(f"session-{number:03}")


class IndexUse:
    """A search index, as a daemon uses it."""

    in_memory = False
    theft = "DELETE FROM entries"
    nonsense = (
        "UPDATE sessions SET seq = 'a word', end = x'ff'",
        "UPDATE entries SET text = 7",
        "UPDATE entries SET text = x'ff'",
        "UPDATE words_config SET v = 99 WHERE k = 'version'",
        "UPDATE words_data SET block = x'ffffffffffff'",
        "ALTER TABLE sessions RENAME TO others",
        "DROP TABLE entries",
    )

    def __init__(self, path: Path, told: Callable[[str], None]) -> None:
        self._index = TextIndex(path, told)
        self.file: GuardedDatabase = self._index.file
        self.close = self._index.close

    def put(self, number: int, more: str = "") -> None:
        """Store a session."""
        texts = [line(1, "id", f"lagoon {more}")]
        session_id = f"session-{number:03}"
        self._index.put([Addition(session_id, Indexed("e", 1, 10), texts, anew=True)])

    def all(self) -> list[int]:
        """Return the stored sessions."""
        return sorted(int(session_id[-3:]) for session_id in self._index.indexed())

    def ask_everything(self) -> None:
        """Read what each row has."""
        self._index.find(LAGOON, {f"session-{number:03}" for number in self.all()}.__and__, 1000)

    def purge(self, number: int) -> None:
        """Erase a session."""
        self._index.purge(f"session-{number:03}")


Use = CatalogUse | IndexUse
both = pytest.mark.parametrize("kind", [CatalogUse, IndexUse])


def filled(kind: type[Use], path: Path, *numbers: int) -> None:
    """Make a file with sessions, which nobody has open."""
    made = kind(path, pytest.fail)
    for number in numbers:
        made.put(number)
    made.close()


def beside(path: Path, ending: str) -> Path:
    return path.with_name(f"{path.name}{ending}")


def written(path: Path, *statements: str) -> None:
    """Write to a file as another program does."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        for statement in statements:
            other.execute(statement)


# -- what is found at the opening ----------------------------------------------------------------


def be_cut(size: int) -> Callable[[Path], None]:
    return lambda path: os.truncate(path, size)


def be_cut_in_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 8192 * 4096)


def be_zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def be_noise(path: Path) -> None:
    path.write_bytes(random.Random(1).randbytes(100_000))


def be_of_version(version: int) -> Callable[[Path], None]:
    return lambda path: written(path, f"PRAGMA user_version = {version}")


def be_of_another_program(path: Path) -> None:
    (version,) = read_only(path, lambda one: one.execute("PRAGMA user_version").fetchone())
    path.unlink()
    tables = "CREATE TABLE sessions (surprise TEXT)", "CREATE TABLE meta (surprise TEXT)"
    written(path, *tables, f"PRAGMA user_version = {version}")


def be_of_another_unnumbered_program(path: Path) -> None:
    path.unlink()
    written(path, "CREATE TABLE sessions (surprise TEXT)", "CREATE TABLE words (surprise TEXT)")


def be_gone_but_for_the_log(path: Path) -> None:
    path.unlink()
    beside(path, "-wal").write_bytes(random.Random(2).randbytes(50_000))
    beside(path, "-shm").write_bytes(random.Random(3).randbytes(32_768))


@both
@pytest.mark.parametrize(
    "damage",
    [
        *(be_cut(size) for size in (0, 1, 50, 100, 4096, 4097)),
        *(be_of_version(version) for version in (-1, 99, 2**31 - 1)),
        *(be_cut_in_half, be_zeros, be_noise, be_of_another_program),
        *(be_of_another_unnumbered_program, be_gone_but_for_the_log),
    ],
)
def test_a_file_that_is_none_of_ours_is_made_anew(
    tmp_path: Path, kind: type[Use], damage: Callable[[Path], None]
) -> None:
    path = tmp_path / "database.sqlite"
    filled(kind, path, *range(ROWS))
    damage(path)
    for number in (100, 101):
        used = kind(path, lambda _: None)
        used.put(number)
        used.ask_everything()
        assert number in used.all()
        assert not used.file.stands_in
        used.close()
    assert path.stat().st_mode & 0o777 == 0o600


@both
def test_a_damaged_database_of_the_profile_stops_no_use(tmp_path: Path, kind: type[Use]) -> None:
    path = tmp_path / "database.sqlite"
    filled(kind, path, *range(ROWS))
    content = path.read_bytes()
    for seed in range(40):
        dice, changed = random.Random(seed), bytearray(content)
        for _ in range(1 + seed * 7):
            changed[dice.randrange(16, len(changed))] = dice.randrange(256)
        path.write_bytes(changed)
        used = kind(path, lambda _: None)
        used.ask_everything()
        for number in range(ROWS):
            used.put(number)
        assert ROWS - 1 in used.all()
        used.close()


@pytest.mark.parametrize(
    ("kind", "statement"),
    [(kind, statement) for kind in (CatalogUse, IndexUse) for statement in kind.nonsense],
)
def test_rows_that_make_no_sense_are_made_anew(
    tmp_path: Path, kind: type[Use], statement: str
) -> None:
    path = tmp_path / "database.sqlite"
    used = kind(path, pytest.fail)
    used.put(1)
    used.ask_everything()
    used.close()
    written(path, statement)
    used = kind(path, lambda _: None)
    used.ask_everything()
    used.put(2)
    used.ask_everything()
    assert 2 in used.all()
    used.close()


# -- what becomes of a file in use ---------------------------------------------------------------


@both
def test_a_statement_that_is_wrong_costs_no_row(tmp_path: Path, kind: type[Use]) -> None:
    used = kind(tmp_path / "database.sqlite", pytest.fail)
    used.put(1)
    with pytest.raises(UnicodeEncodeError):
        used.put(2, "\udcff")
    with pytest.raises(sqlite3.OperationalError, match="no such column"):
        used.file.use(lambda connection: connection.execute("SELECT missing FROM sessions"))
    with pytest.raises(sqlite3.IntegrityError):
        used.file.use(
            lambda connection: connection.execute("INSERT INTO sessions (epoch) VALUES (NULL)")
        )
    assert (used.all(), used.file.generation) == ([1], 0)
    used.close()


@both
def test_a_file_that_was_closed_is_left_alone(tmp_path: Path, kind: type[Use]) -> None:
    path, told = tmp_path / "database.sqlite", list[str]()
    used = kind(path, told.append)
    used.put(1)
    used.close()
    for again in (used.all, lambda: used.put(2), lambda: used.file.refuse("late")):
        with pytest.raises(StorageError, match="it was closed"):
            again()
    other = kind(path, pytest.fail)
    assert other.all() == [1]
    other.close()


@both
def test_a_deleted_file_is_noticed_before_the_next_use(tmp_path: Path, kind: type[Use]) -> None:
    path, told = tmp_path / "database.sqlite", list[str]()
    used = kind(path, told.append)
    used.put(1)
    for ending in ("", "-wal", "-shm"):
        beside(path, ending).unlink()
    assert (used.all(), used.file.generation, len(told)) == ([], 1, 1)
    used.put(2)
    assert path.stat().st_mode & 0o777 == 0o600
    assert (used.all(), len(told)) == ([2], 1)
    used.close()


@both
def test_a_folder_that_is_moved_away_takes_nothing_along(tmp_path: Path, kind: type[Use]) -> None:
    folder, elsewhere, told = tmp_path / "profile", tmp_path / "elsewhere", list[str]()
    folder.mkdir()
    used = kind(folder / "database.sqlite", told.append)
    used.put(1)
    folder.rename(elsewhere)
    assert used.all() == [1]
    elsewhere.rename(folder)
    used.put(2)
    assert (used.all(), used.file.generation, told) == ([1, 2], 0, [])
    # A new folder in the place of the old one has no file.
    folder.rename(elsewhere)
    folder.mkdir()
    assert (used.all(), len(told)) == ([], 1)
    used.close()


@both
def test_a_file_that_is_damaged_in_use_is_made_anew(tmp_path: Path, kind: type[Use]) -> None:
    path, told = tmp_path / "database.sqlite", list[str]()
    used = kind(path, told.append)
    for number in range(200):
        used.put(number, "x" * 500)
    used.file.use(lambda connection: connection.execute("PRAGMA journal_mode = DELETE").fetchall())
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))
    used.file.use(lambda connection: connection.execute("PRAGMA cache_size = 0").fetchall())
    used.ask_everything()
    assert (used.all(), used.file.generation, len(told)) == ([], 1, 1)
    used.put(1)
    assert used.all() == [1]
    used.close()


@both
def test_a_file_that_was_replaced_is_used_without_the_log_of_the_other(
    tmp_path: Path, kind: type[Use]
) -> None:
    path, other, told = tmp_path / "database.sqlite", tmp_path / "other.sqlite", list[str]()
    used = kind(path, told.append)
    used.put(1)
    filled(kind, other, 2, 3)
    with_words = kind(other, pytest.fail)
    with_words.put(4, "secretword")
    with_words.close()
    other.replace(path)
    assert used.all() == [2, 3, 4]
    assert (used.file.generation, len(told)) == (1, 1)
    used.put(5)
    used.purge(4)
    files = [path.read_bytes() for path in tmp_path.iterdir()]
    assert not any(b"secretw" in content for content in files)
    used.close()
    again = kind(path, pytest.fail)
    assert {2, 3, 5} <= {*again.all()}
    again.close()


@both
def test_what_another_program_wrote_is_not_believed(tmp_path: Path, kind: type[Use]) -> None:
    path, told = tmp_path / "database.sqlite", list[str]()
    used = kind(path, told.append)
    used.put(1)
    written(path, kind.theft)
    assert (used.all(), used.file.generation) == ([], 1)
    used.put(2)
    assert (used.all(), len(told)) == ([2], 1)
    used.close()


def refusal_of(used: Use, number: int, more: str = "") -> str | None:
    """Store a session; return the name of the error if that is refused, as a catalog never does."""
    try:
        used.put(number, more)
    except StorageError as error:
        return str(error.data()["errno"])
    return None


@both
def test_a_damaged_file_that_cannot_be_removed_is_left_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Use]
) -> None:
    path, told = tmp_path / "database.sqlite", list[str]()
    used = kind(path, told.append)
    used.put(1)
    used.file.use(lambda connection: connection.execute("DROP TABLE sessions"))

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        assert (refusal_of(used, 7) is None) is kind.in_memory
        assert used.file.stands_in is kind.in_memory
    used.put(8)
    assert used.all() == ([7, 8] if kind.in_memory else [8])
    assert not used.file.stands_in
    used.close()


# -- what cannot be used, and is not damaged -----------------------------------------------------


def become_blocked(path: Path, _monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody make a log, as a full disk and a folder that is read-only do."""
    beside(path, "-wal").mkdir()


UNUSABLE = [
    become_immutable,
    become_blocked,
    become_folder,
    become_circle,
    become_pipe,
    lose_folder,
]


@both
@pytest.mark.parametrize("become", UNUSABLE)
def test_a_file_that_cannot_be_opened_is_left_until_it_can(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[Use],
    become: Callable[[Path, pytest.MonkeyPatch], None],
) -> None:
    path, told = tmp_path / "folder" / "database.sqlite", list[str]()
    path.parent.mkdir()
    filled(kind, path, 1)
    before = path.read_bytes()
    # What can be read is not lost: the epochs of sessions are nowhere else.
    kept = [1] if become in {become_immutable, become_blocked} else []
    with monkeypatch.context() as patch:
        become(path, patch)
        mode = path.lstat().st_mode if os.path.lexists(path) else None
        used = kind(path, told.append)
        assert (refusal_of(used, 7) is None) is kind.in_memory
        assert used.file.stands_in is kind.in_memory
        if kind.in_memory:
            assert used.all() == [*kept, 7]
            assert len(told) == 1
            assert "kept in memory" in told[0]
        # Nothing is done to what is there.
        assert not kept or path.read_bytes() == before
        assert mode is None or path.lstat().st_mode == mode
    if become is become_blocked:
        beside(path, "-wal").rmdir()
    elif path.is_dir():
        path.rmdir()
    elif not kept:
        path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    # Once the file is writable again, it is used again.
    used.put(8)
    assert used.all() == ([*kept, 7, 8] if kind.in_memory else [*kept, 8])
    assert not used.file.stands_in
    used.close()
    again = kind(path, pytest.fail)
    assert again.all() == ([*kept, 7, 8] if kind.in_memory else [*kept, 8])
    again.close()


@both
@pytest.mark.parametrize("trouble", ["full", "locked", "read-only"])
def test_a_file_that_cannot_be_written_loses_nothing(
    tmp_path: Path, kind: type[Use], trouble: str
) -> None:
    path, told = tmp_path / "database.sqlite", list[str]()
    used = kind(path, told.append)
    used.put(1)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        ask: dict[str, Any] = {"full": "max_page_count = 1", "read-only": "query_only = ON"}
        if trouble == "locked":
            other.execute("BEGIN IMMEDIATE")
        else:
            used.file.use(lambda connection: connection.execute(f"PRAGMA {ask[trouble]}"))
        long = " ".join(f"word{number}" for number in range(20_000))
        refusal = "ENOSPC" if trouble == "full" else "EIO"
        for _ in range(2):
            assert refusal_of(used, 2, long) == (None if kind.in_memory else refusal)
        assert (used.file.stands_in, len(told)) == (kind.in_memory, int(kind.in_memory))
    if not kind.in_memory:
        used.close()
        used = kind(path, told.append)
    assert used.all() == ([1, 2] if kind.in_memory else [1])
    used.put(3)
    assert (used.file.stands_in, used.file.generation) == (False, 0)
    used.close()
    again = kind(path, pytest.fail)
    assert again.all() == ([1, 2, 3] if kind.in_memory else [1, 3])
    again.close()


@both
def test_a_path_that_is_too_long_for_sqlite_gets_no_file(tmp_path: Path, kind: type[Use]) -> None:
    folder, told = deep(tmp_path, BEYOND_SQLITE + 30), list[str]()
    folder.mkdir(parents=True)
    used = kind(folder / "database.sqlite", told.append)
    for number in (1, 2):
        used.put(number)
        used.ask_everything()
    used.purge(1)
    assert 2 in used.all()
    assert (used.file.stands_in, len(told), [*folder.iterdir()]) == (True, 1, [])
    used.close()


@both
@pytest.mark.parametrize("trouble", ["locked", "read-only"])
def test_words_that_cannot_be_erased_are_erased_when_they_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Use], trouble: str
) -> None:
    def has_words() -> bool:
        return any(b"unforgotten" in one.read_bytes() for one in tmp_path.iterdir())

    path = tmp_path / "database.sqlite"
    used = kind(path, lambda _text: None)
    used.put(1, "unforgotten")
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as other,
        monkeypatch.context() as patch,
    ):
        if trouble == "locked":
            other.execute("BEGIN IMMEDIATE")
        else:
            become_read_only(used.file, patch)
        for _ in range(2):
            with pytest.raises(StorageError, match="cannot use"):
                used.purge(1)
        assert has_words()
    if not kind.in_memory:
        used.close()
        used = kind(path, pytest.fail)
    used.purge(1)
    assert not has_words()
    used.close()


# -- readers -------------------------------------------------------------------------------------


def count(connection: sqlite3.Connection) -> int:
    (found,) = connection.execute("SELECT count(*) FROM sessions").fetchone()
    return int(found)


@both
def test_a_reader_sees_all_rows_and_leaves_no_file_behind(tmp_path: Path, kind: type[Use]) -> None:
    path = tmp_path / "database.sqlite"
    filled(kind, path, 1, 2)
    assert read_only(path, count) == 2
    assert [*tmp_path.iterdir()] == [path]
    used = kind(path, pytest.fail)
    used.put(3)
    assert read_only(path, count) == 3
    used.close()
    assert [*tmp_path.iterdir()] == [path]


@both
def test_a_reader_reads_again_what_was_opened_meanwhile(tmp_path: Path, kind: type[Use]) -> None:
    path, seen = tmp_path / "database.sqlite", list[int]()
    filled(kind, path, 1)
    used = kind(path, pytest.fail)
    used.close()

    def read(connection: sqlite3.Connection) -> int:
        seen.append(count(connection))
        if len(seen) == 1:
            nonlocal used
            used = kind(path, pytest.fail)
            used.put(2)
        return seen[-1]

    assert read_only(path, read) == 2
    assert seen == [1, 2]
    used.close()
