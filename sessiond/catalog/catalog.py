"""The known session files: their paths, their epochs and the rows that lists show.

Rule 1: the catalog is never the truth. A row is trusted only while the file has the
inode, size and time that the row records. Deleting `catalog.sqlite` costs a scan and
gives every session that is not open a new epoch. Nothing else is lost.
Rule 2: every method is one transaction, and no method but `erase` fails because of the catalog's own file.

Blocking: any worker thread may call a method; a lock lets one call run at a time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence, Set
from pathlib import Path
from typing import TypeVar

from sessiond.catalog.guarded import GuardedDatabase, require_types
from sessiond.catalog.query import Position, Query, select_ids, select_page
from sessiond.catalog.rows import Fingerprint, Known, Mark, Shown, Stored
from sessiond.catalog.schema import TABLES
from sessiond.catalog.statements import (
    all_known,
    at_path,
    below,
    change_roots,
    drop,
    drop_unlisted,
    erase,
    find_chosen,
    find_known,
    find_marks,
    find_related,
    find_roots,
    find_settled_drafts,
    find_shown,
    find_titles,
    insert,
    known_parts,
    place,
    take_changed,
    unlist,
)
from sessiond.limits import LIST_BYTES_MAX

T = TypeVar("T")


class Catalog:
    """The catalog of one profile."""

    def __init__(self, path: Path, on_trouble: Callable[[str], None]) -> None:
        """Open or create the file. `on_trouble` gets one text per problem with the file."""
        self.file = GuardedDatabase(path, TABLES, on_trouble)
        self.file.look()

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    # -- one session -----------------------------------------------------------------

    def known(self, session_id: str) -> Known | None:
        """Return the record of a session's file; None if there is none."""

        return self.file.use(lambda connection: find_known(connection, session_id))

    def at(self, path: str) -> list[Known]:
        """Return the records of the file at a path: one, unless an older version made several."""
        return self.file.use(lambda connection: at_path(connection, path))

    def related(self, path: str, ids: Iterable[str]) -> list[Known]:
        """Return the records of the file at a path, as `at` does, and of the sessions `ids`."""
        return self.file.use(lambda connection: find_related(connection, path, ids))

    def place(self, session_id: str, path: str, mark: Mark) -> None:
        """Record the path and the epoch of a session's file; the list columns stay."""
        self.file.use(lambda connection: place(connection, session_id, path, mark))

    def sync(self) -> None:
        """Make the records durable that are in the file."""
        # Before SQLite copies its log into the tables, SQLite syncs the log.
        self.file.use(lambda connection: connection.execute("PRAGMA wal_checkpoint").fetchone())

    def shown(self, session_id: str) -> Shown | None:
        """Return what lists show of a session; None if it is not listed."""
        return self.file.use(lambda connection: find_shown(connection, [session_id])).get(
            session_id
        )

    def titles(self, session_ids: Iterable[str]) -> dict[str, str | None]:
        """Return the titles of those of these sessions that are listed."""
        wanted = tuple(session_ids)
        return self.file.use(lambda connection: find_titles(connection, wanted))

    # -- many ------------------------------------------------------------------------

    def all(self) -> list[Known]:
        """Return the records of all files."""
        return self.file.use(all_known)

    def parts(self) -> list[Known]:
        """Return the records of files of which the rows show the figures of a part."""
        return self.file.use(known_parts)

    def put(self, rows: Sequence[Stored], gone: Iterable[str] = ()) -> dict[str, Shown]:
        """Store `rows` and unlist the sessions `gone`, in one transaction.

        Returns what lists showed of these sessions before. A session in `gone` keeps its epoch, for
        its file may come back.
        """
        gone = tuple(gone)
        return self.file.use(lambda connection: _put(connection, rows, gone))

    def put_read(
        self, rows: Sequence[tuple[Stored, Mark | None]], gone: Iterable[str] = ()
    ) -> tuple[dict[str, Shown], list[Stored]]:
        """Store rows that were read from files and unlist the sessions `gone`, in one transaction.

        Each row comes with the mark that the catalog had before the read. A row is skipped if the
        mark has changed since: then the session was opened meanwhile, and its mark is newer.
        Returns what lists showed before, and the stored rows.
        """
        gone = tuple(gone)

        def store(connection: sqlite3.Connection) -> tuple[dict[str, Shown], list[Stored]]:
            marks = find_marks(connection, [row.session_id for row, _ in rows])
            current = [row for row, mark in rows if marks.get(row.session_id) == mark]
            return _put(connection, current, gone), current

        return self.file.use(store)

    def forget(self, session_ids: Iterable[str]) -> None:
        """Delete the rows of sessions from the catalog; their files stay."""
        dropped = tuple(session_ids)

        def drop_all(connection: sqlite3.Connection) -> None:
            for session_id in dropped:
                drop(connection, session_id)

        self.file.use(drop_all)

    def forget_unlisted(self, known: Known) -> None:
        """Delete the record of an unlisted session's file, unless the record changed since."""
        self.file.use(lambda connection: drop_unlisted(connection, known))

    def erase(self, session_id: str) -> None:
        """Erase the text of an unlisted session from its row and from all pages of the file.

        Raises StorageError while old pages stay: the file cannot be used, or another process reads it.
        """
        self.file.erase(lambda connection: erase(connection, session_id))

    # -- roots -----------------------------------------------------------------------

    def roots(self) -> set[str]:
        """Return the paths of the roots whose sessions are listed."""
        return self.file.use(find_roots)

    def below(self, folder: str) -> list[Known]:
        """Return the records of the listed files below a folder."""
        return self.file.use(lambda connection: below(connection, folder))

    def set_roots(self, paths: Set[str], left: Iterable[str]) -> None:
        """Set the roots whose sessions are listed; erase the text of unlisted sessions in `left`."""
        self.file.use(lambda connection: change_roots(connection, paths, left))

    def settled_drafts(self) -> dict[str, Fingerprint]:
        """Return the paths of drafts without an answer, with each file's identity when read."""
        return self.file.use(find_settled_drafts)

    # -- questions -------------------------------------------------------------------

    def page(
        self, query: Query, limit: int, after: Position | None
    ) -> tuple[list[tuple[bytes, str | int, str]], bool]:
        """Return rows of a list (info, sort key, session id), and whether more rows follow.

        Returns at most `limit` rows and LIST_BYTES_MAX bytes, but at least one row if there is any.
        """
        statement, values = select_page(query, limit + 1, after)

        def read(
            connection: sqlite3.Connection,
        ) -> tuple[list[tuple[bytes, str | int, str]], bool]:
            rows: list[tuple[bytes, str | int, str]] = []
            room = LIST_BYTES_MAX
            for row in connection.execute(statement, values):
                require_types(row[::2], (bytes, str))
                room -= len(row[0])
                if rows and (len(rows) == limit or room < 0):
                    return rows, True
                rows.append(row)
            return rows, False

        return self.file.use(read)

    def ids(self, query: Query) -> list[str]:
        """Return the ids of a list's sessions, without the sessions in memory."""
        statement, values = select_ids(query)
        return self.file.use(
            lambda connection: [row[0] for row in connection.execute(statement, values)]
        )

    def chosen(self, query: Query | None, session_ids: Iterable[str]) -> dict[str, Known]:
        """Return the records of those of these sessions that a list has; of those that any list has without a query."""
        asked = tuple(session_ids)
        return self.file.use(lambda connection: find_chosen(connection, query, asked))

    def take_changed(self) -> set[str]:
        """Return the sessions whose rows have changed since the last call; `ANY` where each may have changed."""
        return self.file.use(take_changed)

    def ask(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """Run a function of `finding` in one transaction and return its result."""
        return self.file.use(question)

    def raise_revision(self, least: int) -> int:
        """Return a new revision: greater than all earlier ones, and at least `least`."""

        return self.reserve("revision", least, 1)

    def reserve(self, name: str, least: int, count: int) -> int:
        """Reserve `count` new numbers under a name, from `least` on; return the first."""

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
    before = find_shown(connection, [*(row.session_id for row in rows), *gone])
    for row in rows:
        if row.session_id in before:
            drop(connection, row.session_id)
    insert(connection, rows)
    for session_id in gone:
        unlist(connection, session_id)
    return before
