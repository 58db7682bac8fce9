"""Known session files: where they are, under which epoch, and what lists show of them.

Rule 1: the catalog is never the truth. A row is believed only while the file has
the inode, size and time it was written for; deleting `catalog.sqlite` costs a
scan and gives every session that is not open a new epoch, nothing else.
Rule 2: no call fails because of the catalog's own file. One that was deleted or
damaged is begun anew; one that cannot be written is left alone, and a copy in
memory stands in for it until it can. `generation` grows whenever rows were lost.

Blocking: called in worker threads, from any of them, one at a time.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from sessiond.catalog.database import MEMORY, connect, open_database
from sessiond.catalog.query import Position, Query, select_ids, select_page
from sessiond.catalog.rows import Fingerprint, Known, Mark, Shown, Stored
from sessiond.catalog.schema import COLUMNS
from sessiond.errors import StorageError

__all__ = ["Catalog"]

T = TypeVar("T")

_KNOWN: Final = (
    "session_id, path, epoch, seen_seq, seen_digest, inode, size, mtime_ns, summary, listed"
)
_PLACES: Final = ",".join("?" * (COLUMNS.count(",") + 1))
_PLACE: Final = (
    "INSERT INTO sessions (session_id, path, epoch, seen_seq, seen_digest) VALUES (?,?,?,?,?) "
    "ON CONFLICT (session_id) DO UPDATE SET epoch = excluded.epoch, "
    "seen_seq = excluded.seen_seq, seen_digest = excluded.seen_digest, path = excluded.path, "
    # What lists show was read at the other place.
    "inode = CASE WHEN path = excluded.path THEN inode ELSE 0 END"
)


class Catalog:
    """The tables of one profile."""

    def __init__(self, path: Path, on_trouble: Callable[[str], None]) -> None:
        """Open or begin it. `on_trouble` is told once per trouble with the file. Raises StorageError."""
        self._path = path
        self._on_trouble = on_trouble
        self._lock = threading.Lock()
        self.generation = 0
        self._stands_in = False
        self._connection = open_database(path)
        self._identity = _identity(path)

    @property
    def stands_in(self) -> bool:
        """Whether a copy in memory is used because the file cannot be."""
        return self._stands_in

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    # -- one session -----------------------------------------------------------------

    def known(self, session_id: str) -> Known | None:
        """What is noted of a session's file."""

        def one(connection: sqlite3.Connection) -> Known | None:
            row = connection.execute(
                f"SELECT {_KNOWN} FROM sessions WHERE session_id = ?",  # noqa: S608 - our names
                (session_id,),
            ).fetchone()
            return None if row is None else _known(row)

        return self._use(one)

    def place(self, session_id: str, path: str, mark: Mark) -> None:
        """Note where a session's file is and under which epoch; what lists show stays."""
        row = (session_id, path, mark.epoch, mark.seen_seq, mark.seen_digest)
        self._use(lambda connection: connection.execute(_PLACE, row))

    def shown(self, session_id: str) -> Shown | None:
        """What lists show of a session."""
        return self._use(lambda connection: _shown(connection, session_id))

    # -- many ------------------------------------------------------------------------

    def all(self) -> list[Known]:
        """What is noted of every file."""
        return self._use(
            lambda connection: [
                _known(row)
                for row in connection.execute(f"SELECT {_KNOWN} FROM sessions")  # noqa: S608
            ]
        )

    def put(self, rows: Sequence[Stored], gone: Iterable[str] = ()) -> dict[str, Shown]:
        """Store rows and list others no more, in one transaction; gives what lists showed before.

        What is gone keeps its epoch, in case that it comes back.
        """
        gone = tuple(gone)

        def store(connection: sqlite3.Connection) -> dict[str, Shown]:
            before: dict[str, Shown] = {}
            for session_id in [*(row.session_id for row in rows), *gone]:
                shown = _shown(connection, session_id)
                if shown is not None:
                    before[session_id] = shown
            for row in rows:
                _drop(connection, row.session_id)
                _insert(connection, row)
            for session_id in gone:
                _unlist(connection, session_id)
            return before

        return self._use(store)

    def forget(self, session_ids: Iterable[str]) -> None:
        """Drop what is known of sessions; no file is touched."""
        dropped = tuple(session_ids)

        def drop(connection: sqlite3.Connection) -> None:
            for session_id in dropped:
                _drop(connection, session_id)

        self._use(drop)

    # -- questions -------------------------------------------------------------------

    def page(
        self, query: Query, limit: int, after: Position | None
    ) -> list[tuple[bytes, str | int, str]]:
        """Up to `limit` rows of a list: what it shows, its sort key, its session id."""
        statement, values = select_page(query, limit, after)
        return self._use(lambda connection: connection.execute(statement, values).fetchall())

    def ids(self, query: Query) -> list[str]:
        """The sessions of a list that are in files."""
        statement, values = select_ids(query)
        return self._use(
            lambda connection: [row[0] for row in connection.execute(statement, values)]
        )

    def ask(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """Answer a question of `finding`."""
        return self._use(question)

    def raise_revision(self, least: int) -> int:
        """The next revision: above every one there was, and at least this."""

        def rise(connection: sqlite3.Connection) -> int:
            found = connection.execute("SELECT value FROM meta WHERE name = 'revision'").fetchone()
            revision = max(least, found[0] + 1 if found else 0)
            connection.execute(
                "INSERT OR REPLACE INTO meta (name, value) VALUES ('revision', ?)", (revision,)
            )
            return revision

        return self._use(rise)

    # -- the file ----------------------------------------------------------------------

    def look(self) -> None:
        """Notice a file that was deleted or replaced, or one that can be written again."""
        with self._lock:
            if self._stands_in:
                self._try_file()
            else:
                self._require_file()

    def _use(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run in one transaction; when the file is the trouble, again without it."""
        with self._lock:
            if not self._stands_in:
                self._require_file()
            try:
                with self._connection:
                    return work(self._connection)
            except sqlite3.DatabaseError as error:
                self._do_without(error)
            with self._connection:
                return work(self._connection)

    def _require_file(self) -> None:
        if _identity(self._path) != self._identity:
            self._begin_anew("it was deleted or replaced")

    def _do_without(self, error: sqlite3.DatabaseError) -> None:
        if isinstance(error, (sqlite3.IntegrityError, sqlite3.ProgrammingError)) or self._stands_in:
            raise error
        if isinstance(error, sqlite3.OperationalError):
            self._stand_in(str(error))
        else:
            self._path.unlink(missing_ok=True)
            self._begin_anew(str(error))

    def _begin_anew(self, why: str) -> None:
        self._on_trouble(f"the catalog is made again: {why}")
        self._connection.close()
        self.generation += 1
        try:
            self._connection = open_database(self._path)
            self._identity = _identity(self._path)
        except StorageError as error:
            self._connection = connect(MEMORY)
            self._stands_in = True
            self._on_trouble(f"the catalog is kept in memory: {error}")

    def _stand_in(self, why: str) -> None:
        """Go on with a copy in memory, or with nothing if not even that can be read."""
        self._on_trouble(f"the catalog is kept in memory: {why}")
        memory = connect(MEMORY)
        try:
            self._connection.backup(memory)
        except sqlite3.DatabaseError:
            memory.close()
            memory = connect(MEMORY)
            self.generation += 1
        else:
            _copy_volatile(self._connection, memory)
        self._connection.close()
        self._connection = memory
        self._stands_in = True

    def _try_file(self) -> None:
        """Put what stands in into the file, if it can be written by now."""
        try:
            database = open_database(self._path)
        except StorageError:
            return
        try:
            self._connection.backup(database)
            database.execute("PRAGMA journal_mode = WAL")
        except sqlite3.DatabaseError:
            database.close()
            return
        _copy_volatile(self._connection, database)
        self._connection.close()
        self._connection = database
        self._identity = _identity(self._path)
        self._stands_in = False


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - asked before every use
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _copy_volatile(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    for table in ("volatile", "volatile_tags"):
        rows = source.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608 - our names
        for row in rows:
            places = ",".join("?" * len(row))
            target.execute(f"INSERT OR REPLACE INTO {table} VALUES ({places})", row)  # noqa: S608
    target.commit()


def _shown(connection: sqlite3.Connection, session_id: str) -> Shown | None:
    for table in ("sessions", "volatile"):
        row = connection.execute(
            f"SELECT info, draft, archived, has_assistant FROM {table} "  # noqa: S608 - our names
            "WHERE session_id = ? AND listed = 1",
            (session_id,),
        ).fetchone()
        if row is not None:
            return Shown(row[0], *map(bool, row[1:]))
    return None


def _drop(connection: sqlite3.Connection, session_id: str) -> None:
    for table in ("sessions", "tags", "volatile", "volatile_tags"):
        connection.execute(f"DELETE FROM {table} WHERE session_id = ?", (session_id,))  # noqa: S608


def _unlist(connection: sqlite3.Connection, session_id: str) -> None:
    for table in ("tags", "volatile", "volatile_tags"):
        connection.execute(f"DELETE FROM {table} WHERE session_id = ?", (session_id,))  # noqa: S608
    connection.execute(
        "UPDATE sessions SET listed = 0, inode = 0, size = 0, mtime_ns = 0 WHERE session_id = ?",
        (session_id,),
    )


def _insert(connection: sqlite3.Connection, row: Stored) -> None:
    facts, mark, seen = row.facts, row.mark, row.fingerprint
    table, tags = ("sessions", "tags") if row.path is not None else ("volatile", "volatile_tags")
    words = (facts.title or "", facts.first_message or "", facts.cwd)
    values = (
        row.session_id,
        row.path or "",
        mark.epoch,
        mark.seen_seq,
        mark.seen_digest,
        seen.inode,
        seen.size,
        seen.mtime_ns,
        1,
        facts.archived,
        facts.draft,
        facts.has_assistant,
        facts.cwd,
        facts.title,
        (facts.title or "").casefold(),
        facts.agent,
        facts.status,
        facts.created_at,
        facts.updated_at,
        facts.message_count,
        "\n".join(words).casefold(),
        facts.parent_id,
        facts.parent_path,
        row.summary,
        row.info,
    )
    connection.execute(
        f"INSERT OR REPLACE INTO {table} ({COLUMNS}) VALUES ({_PLACES})",  # noqa: S608 - our names
        values,
    )
    connection.executemany(
        f"INSERT OR IGNORE INTO {tags} VALUES (?, ?)",  # noqa: S608 - our names
        [(tag, row.session_id) for tag in facts.tags],
    )


def _known(row: tuple[str, str, str, int, str, int, int, int, bytes, int]) -> Known:
    session_id, path, epoch, seq, digest, inode, size, mtime_ns, summary, listed = row
    mark = Mark(epoch, seq, digest)
    return Known(session_id, path, mark, Fingerprint(inode, size, mtime_ns), summary, bool(listed))
