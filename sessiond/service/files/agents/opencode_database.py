"""The database of opencode, read where it lies while opencode may be writing to it.

Law: no file appears beside the database. SQLite makes the files of a write-ahead log for readers too,
so a database whose log is not there is read as a file at rest: if its state changed meanwhile, what was
read is thrown away. A log whose index is missing or useless is read from a private copy of both.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import tempfile
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Lock
from typing import Final, TypeVar
from urllib.parse import quote

from sessiond.dialects.agents.opencode_lines import row_lines, session_lines
from sessiond.errors import SessionCorrupt, StorageError
from sessiond.journal.disk.failures import printable, telling
from sessiond.journal.disk.files import Files
from sessiond.journal.disk.regular import check_regular, open_regular
from sessiond.journal.scanning import chunks_of
from sessiond.limits import OPENCODE_BUSY_SECONDS, OPENCODE_TRIES
from sessiond.service.files.agents.opencode_rows import StoredSession
from sessiond.service.files.agents.opencode_tables import messages_in, sessions_in

__all__ = ["Database", "is_database"]

T = TypeVar("T")
_MAGIC: Final = b"SQLite format 3\0"
_HEADER_BYTES: Final = 100
_READ_VERSION: Final = 19
_WITH_LOG: Final = 2
_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
# SQLite cannot use, repair or make the index of the log.
_NO_INDEX: Final = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN})
# A descriptor that is closed drops the locks of the whole process on its file, also those of SQLite.
_LOCKS: Final = Lock()


def is_database(path: Path, files: Files) -> bool:
    """Return whether a regular file is an SQLite database. Raises OSError."""
    with _LOCKS:
        return _first_bytes(path, files)[: len(_MAGIC)] == _MAGIC


class _Changed(Exception):
    """Refusal of what was read while the database changed under a reader without locks."""


class Database:
    """A database of sessions; `AgentStore` describes the methods."""

    def __init__(self, path: Path, files: Files) -> None:
        self._path = path
        self._files = files

    def sessions(self) -> list[StoredSession]:
        """Return all sessions. Raises StorageError, SessionCorrupt."""
        return self._read(sessions_in)

    def lines(self, session: StoredSession) -> list[bytes]:
        """Return the lines that stand for a session. Raises StorageError, SessionCorrupt, TooLarge."""
        is_newer, messages = self._read(lambda one: messages_in(one, session.id))
        make = row_lines if is_newer else session_lines
        return list(make(session.columns, messages))

    # -- connections -------------------------------------------------------------------------

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return what `work` reads in one transaction."""
        with _LOCKS, telling("read", self._path):
            for _ in range(OPENCODE_TRIES):
                try:
                    return self._try(work)
                except _Changed:
                    continue
                except sqlite3.Error as error:
                    raise self._told(error) from error
        raise self._busy()

    def _try(self, work: Callable[[sqlite3.Connection], T]) -> T:
        log, index = self._beside("-wal"), self._beside("-shm")
        has_log = self._has_log()
        if not has_log or (log is not None and index is not None):
            try:
                return _asked(_address(self._path, "mode=ro"), work)
            except sqlite3.OperationalError as error:
                if not has_log or _code(error) not in _NO_INDEX:
                    raise
        if log:
            with self._copy() as copy:
                return _asked(_address(copy, "mode=rw"), work)
        return self._at_rest(work)

    def _at_rest(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Read a database whose log is not there, so that all of the database is in its file."""
        before = self._state()
        try:
            return _asked(_address(self._path, "mode=ro&immutable=1"), work)
        finally:
            # Also an error may come of a change.
            if self._state() != before:
                raise _Changed

    @contextmanager
    def _copy(self) -> Generator[Path]:
        """Copy the database and its log into a private folder."""
        with tempfile.TemporaryDirectory(prefix="sessiond-") as folder:
            before = self._state()
            self._copy_file("", Path(folder))
            try:
                self._copy_file("-wal", Path(folder))
            except FileNotFoundError as error:
                # The last writer has just closed the database, and its log with it.
                raise _Changed from error
            if self._state() != before:
                raise _Changed
            yield Path(folder, "copy")

    def _copy_file(self, ending: str, folder: Path) -> None:
        files = self._files
        fd = open_regular(files, self._named(ending))
        try:
            with Path(folder, f"copy{ending}").open("xb") as target:
                target.writelines(chunks_of(files, fd, 0, check_regular(files, fd)))
        finally:
            files.close(fd)

    # -- the files ---------------------------------------------------------------------------

    def _named(self, ending: str) -> Path:
        return self._path.with_name(f"{self._path.name}{ending}")

    def _beside(self, ending: str) -> int | None:
        """Return the size of a file of the log; None if it is missing."""
        try:
            return self._files.stat(self._named(ending)).st_size
        except FileNotFoundError:
            return None

    def _has_log(self) -> bool:
        return _first_bytes(self._path, self._files)[_READ_VERSION:][:1] == bytes([_WITH_LOG])

    def _state(self) -> tuple[object, ...]:
        """Return what changes whenever another program commits to the database."""
        found = self._files.stat(self._path)
        log = self._beside("-wal")
        first = _first_bytes(self._path, self._files)
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, first, log

    # -- errors ------------------------------------------------------------------------------

    def _told(self, error: sqlite3.Error) -> Exception:
        name, code = printable(self._path.name), _code(error)
        if code in _BUSY:
            return self._busy()
        if code in _DAMAGED:
            return SessionCorrupt(
                f"{name} is a damaged database: {error}", path=printable(self._path)
            )
        return self._refusal(f"could not read {name}: {error}", errno.EIO)

    def _busy(self) -> StorageError:
        name = printable(self._path.name)
        said = f"could not read {name}: another program is writing to it; try again later"
        return self._refusal(said, errno.EBUSY)

    def _refusal(self, said: str, number: int) -> StorageError:
        return StorageError(
            said, errno=errno.errorcode[number], path=printable(self._path), retryable=True
        )


def _first_bytes(path: Path, files: Files) -> bytes:
    fd = open_regular(files, path)
    try:
        return files.pread(fd, _HEADER_BYTES, 0)
    finally:
        files.close(fd)


def _address(path: Path, options: str) -> str:
    return f"file:{quote(os.fsencode(path.absolute()))}?{options}"


def _code(error: sqlite3.Error) -> int:
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE)
    return code & 0xFF


def _asked(address: str, work: Callable[[sqlite3.Connection], T]) -> T:
    found = sqlite3.connect(address, uri=True, timeout=OPENCODE_BUSY_SECONDS, isolation_level=None)
    with closing(found) as connection:
        connection.text_factory = _lenient_text
        connection.execute("BEGIN")
        return work(connection)


def _lenient_text(value: bytes) -> str:
    return value.decode(errors="replace")
