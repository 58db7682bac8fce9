"""The full-text index over the lines of sessions, in `search.sqlite`.

Rule 1: the index is never the truth. A session's rows are valid for the recorded epoch and up to
the recorded line. Deleting the file costs reading the sessions again.
Rule 2: removed text is overwritten, as far as SQLite can.
Blocking: any worker thread may call a method; a lock lets one call run at a time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from sessiond.catalog.guarded import GuardedDatabase, Tables, require_types
from sessiond.catalog.snippets import SNIPPET_SQL, clipped

__all__ = ["Found", "Indexed", "Text", "TextIndex"]

_SCHEMA: Final = """
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
"""

_TABLES: Final = Tables(
    "search index",
    version=2,
    make=lambda _none: _SCHEMA,
    temporary="CREATE TEMP TABLE IF NOT EXISTS wanted (number INTEGER PRIMARY KEY);",
)
_MARK: Final = "epoch, seq, end, chars, left_out"
_MARK_TYPES: Final = (str, int, int, int, int)
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
        """Remember the path; the first use opens or creates the file."""
        self.file = GuardedDatabase(path, _TABLES, on_trouble)

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def indexed(self) -> dict[str, Indexed]:
        """Return the indexed part of each session."""

        def all_of_them(connection: sqlite3.Connection) -> dict[str, Indexed]:
            rows = connection.execute(f"SELECT session_id, {_MARK} FROM sessions")  # noqa: S608
            return {session_id: _indexed(mark) for session_id, *mark in rows}

        self.file.look()
        return self.file.use(all_of_them)

    def amounts(self) -> dict[str, Indexed]:
        """Return what `indexed` returns, without making an index where there is none."""
        return self.indexed() if self.file.is_there() else {}

    def indexed_of(self, session_id: str) -> Indexed | None:
        """Return the indexed part of one session; None if the session is not indexed."""

        def one(connection: sqlite3.Connection) -> Indexed | None:
            row = connection.execute(
                f"SELECT {_MARK} FROM sessions WHERE session_id = ?",  # noqa: S608 - our names
                (session_id,),
            ).fetchone()
            return None if row is None else _indexed(row)

        return self.file.use(one)

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

        self.file.use(store)

    def forget(self, session_ids: Iterable[str]) -> None:
        """Remove sessions from the index."""
        dropped = tuple(session_ids)

        def drop(connection: sqlite3.Connection) -> None:
            for session_id in dropped:
                _drop(connection, session_id)

        if dropped:
            self.file.use(drop)

    def purge(self, session_id: str) -> None:
        """Remove a session and erase its words from all pages of the file.

        Raises StorageError while old pages stay: the file cannot be used, or another process reads it.
        """

        def drop(connection: sqlite3.Connection) -> None:
            _drop(connection, session_id)
            # Deleted rows leave their words in the index until the index is merged.
            connection.execute(_OPTIMIZE)

        # A missing file, or something else of that name, holds no words.
        if self.file.is_there():
            self.file.erase(drop)

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

        return self.file.use(search)


def _indexed(row: Sequence[Any]) -> Indexed:
    require_types(row, _MARK_TYPES)
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
