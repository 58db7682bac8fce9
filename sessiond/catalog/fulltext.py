"""The full-text index over the lines of sessions, in `search.sqlite`.

Rule 1: the index is never the truth. A session's rows are valid for the recorded epoch and up to
the recorded line. Deleting the file costs reading the sessions again.
Rule 2: removed text is overwritten, as far as SQLite can.
Blocking: any worker thread may call a method; a lock lets one call run at a time.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec import Struct

from sessiond.catalog.database import (
    MEMORY,
    PERHAPS_DAMAGED,
    UNNAMED,
    connect,
    error_code,
    has_tables_of,
    refused,
    remove_database,
    require_openable,
)
from sessiond.catalog.snippets import SNIPPET_SQL, clipped
from sessiond.errors import StorageError

__all__ = ["Found", "Indexed", "Text", "TextIndex"]

T = TypeVar("T")

_VERSION: Final = 2

_SCHEMA: Final = f"""
BEGIN IMMEDIATE;
CREATE TABLE sessions (
    number INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL UNIQUE,
    epoch TEXT NOT NULL,
    seq INTEGER NOT NULL,
    end INTEGER NOT NULL,
    chars INTEGER NOT NULL,
    left_out INTEGER NOT NULL
);
CREATE TABLE entries (
    row INTEGER PRIMARY KEY,
    number INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    entry_id TEXT
);
CREATE INDEX entries_by_session ON entries (number);
CREATE VIRTUAL TABLE words USING fts5(
    text, tokenize = "unicode61 remove_diacritics 2", prefix = "2 3"
);
PRAGMA user_version = {_VERSION};
COMMIT;
"""

_MARK: Final = "epoch, seq, end, chars, left_out"
_EMPTY_LOG: Final = "PRAGMA wal_checkpoint(TRUNCATE)"
_OPTIMIZE: Final = "INSERT INTO words (words) VALUES ('optimize')"
_FIND: Final = f"""
SELECT sessions.session_id, entries.entry_id, entries.seq, {SNIPPET_SQL}
FROM words
JOIN entries ON entries.row = words.rowid
JOIN wanted ON wanted.number = entries.number
JOIN sessions ON sessions.number = entries.number
WHERE words MATCH ? ORDER BY rank, words.rowid DESC LIMIT ?
"""  # noqa: S608 - no part comes from outside


class Indexed(Struct, frozen=True):
    """The part of a session that is indexed: up to line `seq`, which ends before byte `end`.

    `chars` counts the characters of its text. Of a session that is `left_out` nothing is indexed, and
    it has at least so many.
    """

    epoch: str
    seq: int
    end: int
    chars: int = 0
    left_out: bool = False


class Text(Struct, frozen=True):
    """The text of one line; the header has no entry id."""

    seq: int
    entry_id: str | None
    text: str


class Found(Struct, frozen=True):
    """A hit of a search."""

    session_id: str
    entry_id: str | None
    seq: int
    snippet: str


class TextIndex:
    """The full-text index of one profile."""

    def __init__(self, path: Path, on_trouble: Callable[[str], None]) -> None:
        """Remember the path; the first use opens or creates the file.

        Where the path is too long for SQLite, the index has no path, and lasts as long as this object.
        """
        self._path, self._has_path = path, True
        try:
            require_openable(path)
        except OSError as error:
            self._path, self._has_path = UNNAMED, False
            on_trouble(f"the search index is made again at each start: {path}: {error.strerror}")
        self._on_trouble = on_trouble
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._close()

    def indexed(self) -> dict[str, Indexed]:
        """Return the indexed part of each session."""

        def all_of_them(connection: sqlite3.Connection) -> dict[str, Indexed]:
            rows = connection.execute(f"SELECT session_id, {_MARK} FROM sessions")  # noqa: S608
            return {session_id: _indexed(mark) for session_id, *mark in rows}

        return self._use(all_of_them)

    def amounts(self) -> dict[str, Indexed]:
        """Return what `indexed` returns, without making an index where there is none."""
        return self.indexed() if self._is_there() else {}

    def indexed_of(self, session_id: str) -> Indexed | None:
        """Return the indexed part of one session; None if the session is not indexed."""

        def one(connection: sqlite3.Connection) -> Indexed | None:
            row = connection.execute(
                f"SELECT {_MARK} FROM sessions WHERE session_id = ?",  # noqa: S608 - our names
                (session_id,),
            ).fetchone()
            return None if row is None else _indexed(row)

        return self._use(one)

    def put(self, session_id: str, mark: Indexed, texts: Sequence[Text], *, anew: bool) -> None:
        """Add lines of a session and record the indexed part, in one transaction.

        With `anew` the earlier lines of the session are removed first.
        """

        def store(connection: sqlite3.Connection) -> None:
            if anew:
                _drop(connection, session_id)
            number = _number(connection, session_id, mark)
            for line in texts:
                row = connection.execute("INSERT INTO words (text) VALUES (?)", (line.text,))
                connection.execute(
                    "INSERT INTO entries (row, number, seq, entry_id) VALUES (?, ?, ?, ?)",
                    (row.lastrowid, number, line.seq, line.entry_id),
                )

        self._use(store)

    def forget(self, session_ids: Iterable[str]) -> None:
        """Remove sessions from the index."""
        dropped = tuple(session_ids)

        def drop(connection: sqlite3.Connection) -> None:
            for session_id in dropped:
                _drop(connection, session_id)

        if dropped:
            self._use(drop)

    def purge(self, session_id: str) -> None:
        """Remove a session and erase its words from all pages of the file.

        Raises StorageError while another process reads the file, because old pages then stay.
        """
        if not self._is_there():
            # A missing file, or something else of that name, holds no words.
            return
        self.forget([session_id])
        # Deleted rows leave their words in the index until the index is merged.
        self._use(lambda connection: connection.execute(_OPTIMIZE))
        # Overwritten pages stay in the log until no reader needs them.
        (is_held, *_) = self._use(lambda connection: connection.execute(_EMPTY_LOG).fetchone())
        if is_held:
            text = (
                f"{self._path} is being read by another process, so deleted words stay in it:"
                " try again once that process has closed it"
            )
            raise StorageError(text, errno="EBUSY", path=str(self._path))

    def find(self, match: str, wanted: Iterable[str], limit: int) -> list[Found]:
        """Return up to `limit` hits in the sessions `wanted`, best first."""

        def search(connection: sqlite3.Connection) -> list[Found]:
            connection.execute("DELETE FROM wanted")
            connection.executemany(
                "INSERT INTO wanted SELECT number FROM sessions WHERE session_id = ?",
                ((session_id,) for session_id in wanted),
            )
            rows = connection.execute(_FIND, (match, limit)).fetchall()
            return [
                Found(session_id, entry_id, seq, clipped(snippet))
                for session_id, entry_id, seq, snippet in rows
            ]

        return self._use(search)

    # -- the file ------------------------------------------------------------

    def _is_there(self) -> bool:
        return self._path.is_file() if self._has_path else self._connection is not None

    def _use(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in one transaction; use a new file if the file was deleted or is damaged."""
        with self._lock:
            return self._use_locked(work)

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _use_locked(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._connection is not None and self._has_path and not self._path.exists():
            self._close()
        try:
            connection = self._connection = self._connection or _open(self._path)
            with connection:
                return work(connection)
        except (sqlite3.OperationalError, OSError) as error:
            if not self._is_damaged(error):
                raise _refused(error, self._path) from error
            self._make_anew(error)
        except (sqlite3.DatabaseError, TypeError, ValueError) as error:
            # Rows that make no sense are a damage, too.
            self._make_anew(error)
        try:
            connection = self._connection = _open(self._path)
            with connection:
                return work(connection)
        except (sqlite3.DatabaseError, OSError) as error:
            raise _refused(error, self._path) from error

    def _is_damaged(self, error: Exception) -> bool:
        if error_code(error) not in PERHAPS_DAMAGED:
            return False
        connection = self._connection
        if connection is None or error_code(error) == sqlite3.SQLITE_CORRUPT:
            return True
        # With all tables there, the statement itself was wrong.
        return not has_tables_of(connect(MEMORY, _prepare), connection)

    def _make_anew(self, why: Exception) -> None:
        self._on_trouble(f"the search index is made again: {why}")
        self._close()
        if self._has_path:
            remove_database(self._path)


def _open(path: Path) -> sqlite3.Connection:
    return connect(path, _prepare)


def _prepare(connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version not in {0, _VERSION}:
        raise sqlite3.DatabaseError(f"it is of version {version}")
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("CREATE TEMP TABLE wanted (number INTEGER PRIMARY KEY)")
    if version == 0:
        connection.executescript(_SCHEMA)


def _indexed(row: Sequence[Any]) -> Indexed:
    epoch, seq, end, chars, left_out = row
    return Indexed(epoch, seq, end, chars, bool(left_out))


def _number(connection: sqlite3.Connection, session_id: str, mark: Indexed) -> int:
    row = connection.execute(
        f"INSERT INTO sessions (session_id, {_MARK}) VALUES (?, ?, ?, ?, ?, ?) "  # noqa: S608
        "ON CONFLICT (session_id) DO UPDATE SET epoch = excluded.epoch, seq = excluded.seq, "
        "end = excluded.end, chars = excluded.chars, left_out = excluded.left_out RETURNING number",
        (session_id, mark.epoch, mark.seq, mark.end, mark.chars, mark.left_out),
    ).fetchone()
    return int(row[0])


def _drop(connection: sqlite3.Connection, session_id: str) -> None:
    its = "number = (SELECT number FROM sessions WHERE session_id = ?)"
    connection.execute(
        f"DELETE FROM words WHERE rowid IN (SELECT row FROM entries WHERE {its})",  # noqa: S608
        (session_id,),
    )
    connection.execute(f"DELETE FROM entries WHERE {its}", (session_id,))  # noqa: S608
    connection.execute("DELETE FROM sessions WHERE session_id = ?", (session_id,))


def _refused(error: sqlite3.Error | OSError, path: Path) -> StorageError:
    return refused(
        error, path, f"cannot use {path}: {error}; it may be deleted, a search makes it anew"
    )
