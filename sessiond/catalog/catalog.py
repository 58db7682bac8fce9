"""Known session files: where they are, under which epoch, and what lists show of them.

Rule 1: the catalog is never the truth. A row is believed only while the file has
the inode, size and time it was written for; deleting `catalog.sqlite` costs a
scan and gives every session that is not open a new epoch, nothing else.
Rule 2: every method is one transaction, and none fails because of the catalog's own file.

Blocking: called in worker threads, from any of them, one at a time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from sessiond.catalog.file import CatalogFile
from sessiond.catalog.query import Position, Query, select_ids, select_page
from sessiond.catalog.rows import Fingerprint, Known, Mark, Shown, Stored
from sessiond.catalog.statements import (
    all_known,
    drop,
    erase,
    find_known,
    find_settled_drafts,
    find_shown,
    insert,
    place,
    unlist,
)
from sessiond.errors import StorageError
from sessiond.limits import LIST_BYTES_MAX

__all__ = ["Catalog"]

T = TypeVar("T")


class Catalog:
    """The tables of one profile."""

    def __init__(self, path: Path, on_trouble: Callable[[str], None]) -> None:
        """Open or begin the file. `on_trouble` is told once per trouble with the file."""
        self.file = CatalogFile(path, on_trouble)
        self._path = path

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    # -- one session -----------------------------------------------------------------

    def known(self, session_id: str) -> Known | None:
        """What is noted of a session's file."""

        return self.file.use(lambda connection: find_known(connection, session_id))

    def place(self, session_id: str, path: str, mark: Mark) -> None:
        """Note where a session's file is and under which epoch; what lists show stays."""
        self.file.use(lambda connection: place(connection, session_id, path, mark))

    def shown(self, session_id: str) -> Shown | None:
        """What lists show of a session."""
        return self.file.use(lambda connection: find_shown(connection, session_id))

    # -- many ------------------------------------------------------------------------

    def all(self) -> list[Known]:
        """What is noted of every file."""
        return self.file.use(all_known)

    def put(self, rows: Sequence[Stored], gone: Iterable[str] = ()) -> dict[str, Shown]:
        """Store rows and list others no more, in one transaction; gives what lists showed before.

        What is gone keeps its epoch, in case that it comes back.
        """
        gone = tuple(gone)
        return self.file.use(lambda connection: _put(connection, rows, gone))

    def put_read(
        self, rows: Sequence[tuple[Stored, Mark | None]], gone: Iterable[str] = ()
    ) -> tuple[dict[str, Shown], list[Stored]]:
        """The same for rows that were read from files, each with what was noted before; gives what was stored.

        Who opened a session since has noted under which epoch it is served, and knows better.
        """
        gone = tuple(gone)

        def store(connection: sqlite3.Connection) -> tuple[dict[str, Shown], list[Stored]]:
            current = [row for row, mark in rows if _mark_of(connection, row.session_id) == mark]
            return _put(connection, current, gone), current

        return self.file.use(store)

    def forget(self, session_ids: Iterable[str]) -> None:
        """Drop what is known of sessions; no file is touched."""
        dropped = tuple(session_ids)

        def drop_all(connection: sqlite3.Connection) -> None:
            for session_id in dropped:
                drop(connection, session_id)

        self.file.use(drop_all)

    def erase(self, session_id: str) -> None:
        """Keep no words of a session that lists do not show: in no page of the file, either.

        Raises StorageError while another process reads the file, which keeps what it was.
        """
        self.file.use(lambda connection: erase(connection, session_id))
        (is_held, *_) = self.file.use(
            lambda connection: connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        )
        if is_held:
            text = f"{self._path} is being read by another process, which keeps the words in it"
            raise StorageError(text, errno="EBUSY", path=str(self._path))

    def settled_drafts(self) -> dict[str, Fingerprint]:
        """Return the paths of drafts without an answer, with the files as they were when read."""
        return self.file.use(find_settled_drafts)

    # -- questions -------------------------------------------------------------------

    def page(
        self, query: Query, limit: int, after: Position | None
    ) -> tuple[list[tuple[bytes, str | int, str]], bool]:
        """Rows of a list (what it shows, its sort key, its session id), and whether there are more.

        Up to `limit`, or as many as LIST_BYTES_MAX holds; at least one if there is any.
        """
        statement, values = select_page(query, limit + 1, after)

        def read(
            connection: sqlite3.Connection,
        ) -> tuple[list[tuple[bytes, str | int, str]], bool]:
            rows: list[tuple[bytes, str | int, str]] = []
            room = LIST_BYTES_MAX
            for row in connection.execute(statement, values):
                room -= len(row[0])
                if rows and (len(rows) == limit or room < 0):
                    return rows, True
                rows.append(row)
            return rows, False

        return self.file.use(read)

    def ids(self, query: Query) -> list[str]:
        """The sessions of a list that are in files."""
        statement, values = select_ids(query)
        return self.file.use(
            lambda connection: [row[0] for row in connection.execute(statement, values)]
        )

    def ask(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """Answer a question of `finding`."""
        return self.file.use(question)

    def raise_revision(self, least: int) -> int:
        """The next revision: above every one there was, and at least this."""

        return self.reserve("revision", least, 1)

    def reserve(self, name: str, least: int, count: int) -> int:
        """The first of `count` numbers that were never given under this name, from `least` on."""

        def rise(connection: sqlite3.Connection) -> int:
            found = connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
            first = max(least, found[0] + 1 if found else 0)
            connection.execute(
                "INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", (name, first + count - 1)
            )
            return first

        return self.file.use(rise)


def _put(
    connection: sqlite3.Connection, rows: Sequence[Stored], gone: Sequence[str]
) -> dict[str, Shown]:
    before: dict[str, Shown] = {}
    for session_id in [*(row.session_id for row in rows), *gone]:
        shown = find_shown(connection, session_id)
        if shown is not None:
            before[session_id] = shown
    for row in rows:
        if row.session_id in before:
            drop(connection, row.session_id)
        insert(connection, row)
    for session_id in gone:
        unlist(connection, session_id)
    return before


def _mark_of(connection: sqlite3.Connection, session_id: str) -> Mark | None:
    known = find_known(connection, session_id)
    return None if known is None else known.mark
