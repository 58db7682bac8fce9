"""catalog.sqlite as every call uses it, and what happens when it cannot be used.

Law: no call fails because of the file. One that was deleted or damaged is begun
anew; one that cannot be written is left alone, and a copy in memory stands in for
it until it can. `generation` grows whenever rows were lost.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sessiond.catalog.database import MEMORY, connect, open_database
from sessiond.errors import StorageError

__all__ = ["CatalogFile"]

T = TypeVar("T")


class CatalogFile:
    """The one connection to the tables, used by one thread at a time."""

    def __init__(self, path: Path, on_trouble: Callable[[str], None]) -> None:
        """Open or begin it. `on_trouble` is told once per trouble with it. Raises StorageError."""
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
        """Close it, or what stands in for it."""
        with self._lock:
            self._connection.close()

    def look(self) -> None:
        """Notice a file that was deleted or replaced, or one that can be written again."""
        with self._lock:
            if self._stands_in:
                self._try_file()
            else:
                self._require_file()

    def use(self, work: Callable[[sqlite3.Connection], T]) -> T:
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
