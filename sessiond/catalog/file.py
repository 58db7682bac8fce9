"""The connection to catalog.sqlite, which other programs may delete, damage or lock at any time.

Rule 1: neither the start nor a use fails because of the file. A file that was deleted, damaged or
written to by another program is made anew. A file that cannot be written, or that another process
holds, is left alone, and a copy in memory stands in for the file until the file is usable again.
`generation` grows whenever rows were lost.
Rule 2: a wait for another process takes at most LOCKED_SECONDS, and happens only once.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from sessiond.catalog.database import (
    DAMAGED,
    FAILURES,
    MEMORY,
    connect,
    copy_rows,
    error_code,
    has_tables_of,
    open_database,
    open_stand_in,
    remove_database,
)
from sessiond.errors import StorageError
from sessiond.limits import LOCKED_SECONDS

__all__ = ["CatalogFile"]

T = TypeVar("T")

# Errors that leave the file intact but unusable for now.
_UNUSABLE: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_READONLY,
    }
)


class CatalogFile:
    """The one connection to the tables, used by one thread at a time."""

    def __init__(self, path: Path, on_trouble: Callable[[str], None]) -> None:
        """Open or create the file. `on_trouble` gets one text per problem with the file."""
        self.generation = 0
        self.stands_in = False
        """True while a copy in memory is used because the file is unusable."""
        self._path = path
        self._on_trouble = on_trouble
        self._lock = threading.Lock()
        try:
            self._connection = open_database(path)
        except StorageError as error:
            on_trouble(f"the catalog is kept in memory: {error}")
            self._connection = open_stand_in(path)
            self.stands_in = True
        self._identity = _identity(path)
        self._version = _version(self._connection)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def look(self) -> None:
        """Check whether another program changed the file, or whether the file is usable again."""
        with self._lock:
            if self.stands_in:
                self._try_file()
            else:
                self._require_file()
                if not self.stands_in:
                    self._require_untouched()

    def refuse(self, why: str) -> None:
        """Discard the file and make a new one, because rows that were read make no sense."""
        with self._lock:
            self._discard(why)

    def use(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in one transaction; if the file fails, run `work` again without the file."""
        with self._lock:
            if not self.stands_in:
                self._require_file()
            for _ in range(2):
                try:
                    with self._connection:
                        return work(self._connection)
                except FAILURES as error:
                    # The second failure may be one of the copy in memory.
                    self._do_without(error)
            with self._connection:
                return work(self._connection)

    def _require_file(self) -> None:
        found = _identity(self._path)
        if found is None and not self._path.parent.exists():
            # A new file cannot be made without the folder, and folder and file may come back.
            return
        # FUSE may give the file another inode at each look.
        if found != self._identity and found == _identity(self._path):
            self._begin_anew("it was deleted or replaced")

    def _require_untouched(self) -> None:
        try:
            version = _version(self._connection)
        except FAILURES as error:
            self._do_without(error)
        else:
            if version != self._version:
                self._discard("another process wrote to it")

    def _do_without(self, error: Exception) -> None:
        code = error_code(error)
        if code in _UNUSABLE and not self.stands_in:
            self._stand_in(str(error))
        elif code in DAMAGED or not self._has_our_tables():
            self._discard(str(error))
        else:
            raise error

    def _discard(self, why: str) -> None:
        if not self.stands_in:
            self._connection.close()
            remove_database(self._path)
        self._begin_anew(why)

    def _has_our_tables(self) -> bool:
        """Return whether all tables are intact; if so, the failed statement itself was wrong."""
        return has_tables_of(connect(MEMORY), self._connection)

    def _begin_anew(self, why: str) -> None:
        self._on_trouble(f"the catalog is made again: {why}")
        self._connection.close()
        self.generation += 1
        try:
            if self.stands_in:
                self._connection = connect(MEMORY)
                return
            self._adopt(open_database(self._path))
        except StorageError as error:
            self._connection = connect(MEMORY)
            self.stands_in = True
            self._on_trouble(f"the catalog is kept in memory: {error}")

    def _stand_in(self, why: str) -> None:
        """Switch to a copy in memory; the copy is empty if the file cannot be read."""
        self._on_trouble(f"the catalog is kept in memory: {why}")
        memory = connect(MEMORY)
        try:
            _copy(self._connection, memory)
        except FAILURES:
            memory.close()
            memory = connect(MEMORY)
            self.generation += 1
        self._connection.close()
        self._connection = memory
        self.stands_in = True

    def _try_file(self) -> None:
        """Write the copy in memory to the file if the file is usable again, without waiting."""
        try:
            database = open_database(self._path, wait=0)
        except StorageError:
            return
        try:
            _copy(self._connection, database)
            database.execute("PRAGMA journal_mode = WAL")
            database.execute(f"PRAGMA busy_timeout = {int(LOCKED_SECONDS * 1000)}")
        except FAILURES:
            database.close()
            return
        self._connection.close()
        self._adopt(database)
        self.stands_in = False

    def _adopt(self, database: sqlite3.Connection) -> None:
        self._connection = database
        self._identity = _identity(self._path)
        self._version = _version(database)


def _version(connection: sqlite3.Connection) -> int:
    """Return a number that changes after every commit of another process."""
    version: int = connection.execute("PRAGMA data_version").fetchone()[0]
    return version


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - asked before every use
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _copy(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    """Copy all tables, the connection's temporary ones too.

    Raises DatabaseError, also if the copy would have to wait.
    """
    copy_rows(source, target)
    for table in ("volatile", "volatile_tags"):
        rows = source.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608 - our names
        for row in rows:
            places = ",".join("?" * len(row))
            target.execute(f"INSERT OR REPLACE INTO {table} VALUES ({places})", row)  # noqa: S608
    target.commit()
