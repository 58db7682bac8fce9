"""The database of opencode, read where it lies while opencode may be writing to it.

Law: no file appears beside the database. SQLite makes the files of a write-ahead log for readers too,
so a log that is there is kept there while it is read, and a database without one is read as a file at
rest: if its state changed meanwhile, what was read is thrown away. A log whose index is missing or
useless is read from a private copy of both.
"""

from __future__ import annotations

import errno
import sqlite3
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Lock
from time import monotonic, sleep
from typing import Final, TypeVar
from weakref import WeakValueDictionary

from sessiond.catalog.guarded import DAMAGED, address, error_code
from sessiond.dialects.agents.opencode_lines import StoredMessage
from sessiond.errors import SessionCorrupt, StorageError, TooLarge
from sessiond.journal.disk.failures import telling
from sessiond.journal.disk.files import Files, FileStat
from sessiond.journal.disk.regular import check_regular, open_regular
from sessiond.journal.scanning import chunks_of
from sessiond.limits import (
    OPENCODE_BUSY_SECONDS,
    OPENCODE_MESSAGE_BYTES_MAX,
    OPENCODE_READ_SECONDS,
    OPENCODE_STEPS_MAX,
    OPENCODE_TRIES,
)
from sessiond.service.sources.agents.opencode.rows import Contents, StoredSession, StoreState
from sessiond.service.sources.agents.opencode.tables import (
    changes_in,
    contents_in,
    messages_in,
    sessions_in,
)
from sessiond.visible import printable

T = TypeVar("T")
_MAGIC: Final = b"SQLite format 3\0"
_HEADER_BYTES: Final = 100
_READ_VERSION: Final = 19
_WITH_LOG: Final = 2
# The bytes that each reader and writer of a database locks, and how many, by the format of SQLite.
_READERS: Final = (0x4000_0002, 510)
_PAUSE_SECONDS: Final = 0.01
_STEPS: Final = 100_000
_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})
# SQLite cannot use, repair or make the index of the log.
_NO_INDEX: Final = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN})
_CHANGING: Final = Lock()
_LOCKS: Final = WeakValueDictionary[str, Lock]()
"""The locks of the databases that are read now, by path without links."""


def is_database(path: Path, files: Files) -> bool:
    """Return whether a regular file is an SQLite database. Raises OSError."""
    return _alone(path, files, lambda disk: _first_bytes(path, disk)[: len(_MAGIC)] == _MAGIC)


def _alone(path: Path, files: Files, work: Callable[[Files], T], seconds: float = 0) -> T:
    """Do work with a database as one look at its place, while no other thread has the file open.

    A descriptor that is closed drops the locks of the whole process on its file, also those of SQLite.
    """

    def looks(disk: Files) -> T:
        name = disk.real(path)
        with _CHANGING:
            lock = _LOCKS.setdefault(name, Lock())
        with lock:
            return work(disk)

    return files.together(path, looks, seconds)


class _Changed(Exception):
    """Refusal of what was read while the database changed under a reader without locks."""


class _Bound:
    """The bound of one read in steps of SQLite and in seconds, asked every so many steps."""

    def __init__(self) -> None:
        self._steps = 0
        self._until = monotonic() + OPENCODE_READ_SECONDS

    @property
    def is_late(self) -> bool:
        """True if the seconds are over."""
        return monotonic() > self._until

    def is_over(self) -> bool:
        """Count the steps since the last call; return whether the read is to end."""
        self._steps += _STEPS
        return self._steps > OPENCODE_STEPS_MAX or self.is_late

    def refusal(self) -> TooLarge:
        """Return why a read was ended."""
        is_slow = self._steps <= OPENCODE_STEPS_MAX
        most = (
            f"{OPENCODE_READ_SECONDS:g} s" if is_slow else f"{OPENCODE_STEPS_MAX} steps of SQLite"
        )
        said = f"one read of the database, or of a view in it, takes more than {most}"
        return TooLarge(said, limit=OPENCODE_STEPS_MAX, size=self._steps)


class Database:
    """A database of sessions; `AgentStore` describes the methods."""

    def __init__(self, path: Path, files: Files) -> None:
        self._path = path
        self._files = files

    def sessions(self) -> list[StoredSession]:
        """Return all sessions. Raises StorageError, SessionCorrupt, TooLarge."""
        return self._read(sessions_in)

    def changes(self) -> list[tuple[StoredSession, int, int]]:
        """Return each session with messages, their number of rows and the newest time of a change."""
        return self._read(changes_in)

    def contents(self, session_id: str) -> Contents | None:
        """Return what a session has; None for no such session. Raises StorageError, SessionCorrupt."""
        return self._read(lambda one: contents_in(one, session_id))

    def messages(self, contents: Contents, ids: Sequence[str]) -> list[StoredMessage]:
        """Return the first of these messages, up to the end of a batch; those that are gone are left out.

        Raises StorageError, SessionCorrupt, TooLarge.
        """
        return self._read(lambda one: messages_in(one, contents, ids))

    def state(self, session_id: str = "") -> StoreState:  # noqa: ARG002 - that of all sessions
        """Return the state of the files, which every change of a session changes. Raises OSError."""
        found = self._files.stat(self._path)
        log = self._beside("-wal") or found
        facts = (
            found.st_ino,
            found.st_size,
            found.st_mtime_ns,
            found.st_ctime_ns,
            log.st_ino,
            log.st_size,
            log.st_mtime_ns,
        )
        return StoreState(facts, max(found.st_mtime_ns, log.st_mtime_ns))

    # -- connections -------------------------------------------------------------------------

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return what `work` reads in one transaction."""
        # SQLite calls the system by itself, so a place may hang behind every look that has an end.
        with telling("read", self._path):
            return _alone(
                self._path,
                self._files,
                lambda disk: Database(self._path, disk).read_alone(work),
                OPENCODE_READ_SECONDS,
            )

    def read_alone(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return what `work` reads in one transaction, while no other thread has the file open."""
        for _ in range(OPENCODE_TRIES):
            try:
                return self._try(work)
            except _Changed:
                continue
            except sqlite3.Error as error:
                raise self._told(error) from error
            except UnicodeDecodeError as error:
                # The words of SQLite for a damage repeat what is damaged.
                raise self._damaged("a name in it is not UTF-8") from error
        raise self._busy()

    def _try(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if not self._has_log():
            return _asked(address(self._path, "mode=ro"), work)
        if self._has_index():
            with self._keeping_log() as is_there:
                try:
                    if is_there:
                        # The index is not written either, where each reader could note its place.
                        return _asked(address(self._path, "mode=ro&readonly_shm=1"), work)
                except sqlite3.OperationalError as error:
                    if error_code(error) not in _NO_INDEX:
                        raise
        log = self._beside("-wal")
        if log is not None and log.st_size:
            with self._copy() as copy:
                return _asked(address(copy, "mode=rw"), work)
        return self._at_rest(work)

    @contextmanager
    def _keeping_log(self) -> Generator[bool]:
        """Keep the log and its index where they are; yield whether they still are there.

        The last writer that closes the database removes both, unless a reader has a lock. SQLite would
        make a new log for a reader that comes a moment later.
        """
        fd = open_regular(self._files, self._path)
        try:
            self._lock(fd)
            yield self._has_index()
        finally:
            self._files.close(fd)

    def _has_index(self) -> bool:
        """Return whether the log is there with its index."""
        return self._beside("-wal") is not None and self._beside("-shm") is not None

    def _lock(self, fd: int) -> None:
        until = monotonic() + OPENCODE_BUSY_SECONDS
        while not self._files.share(fd, *_READERS):
            if monotonic() > until:
                raise self._busy()
            sleep(_PAUSE_SECONDS)

    def _at_rest(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Read a database whose log is not there, so that all of the database is in its file."""
        before = self._state()
        try:
            return _asked(address(self._path, "mode=ro&immutable=1"), work)
        finally:
            # Also an error may come of a change.
            if self._state() != before:
                raise _Changed

    @contextmanager
    def _copy(self) -> Generator[Path]:
        """Copy the database and its log into a private folder."""
        with tempfile.TemporaryDirectory(prefix="sessiond-") as folder:
            before = self._state()
            bound = _Bound()
            self._copy_file("", Path(folder), bound)
            try:
                self._copy_file("-wal", Path(folder), bound)
            except FileNotFoundError as error:
                # The last writer has just closed the database, and its log with it.
                raise _Changed from error
            if self._state() != before:
                raise _Changed
            yield Path(folder, "copy")

    def _copy_file(self, ending: str, folder: Path, bound: _Bound) -> None:
        files = self._files
        fd = open_regular(files, self._named(ending))
        try:
            with Path(folder, f"copy{ending}").open("xb") as target:
                for chunk in chunks_of(files, fd, 0, check_regular(files, fd)):
                    if bound.is_late:
                        raise bound.refusal()
                    target.write(chunk)
        finally:
            files.close(fd)

    # -- the files ---------------------------------------------------------------------------

    def _named(self, ending: str) -> Path:
        return self._path.with_name(f"{self._path.name}{ending}")

    def _beside(self, ending: str) -> FileStat | None:
        """Return the state of a file of the log; None if it is missing, or its name is too long to be."""
        try:
            return self._files.stat(self._named(ending))
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            return None

    def _has_log(self) -> bool:
        return _first_bytes(self._path, self._files)[_READ_VERSION:][:1] == bytes([_WITH_LOG])

    def _state(self) -> tuple[StoreState, bytes]:
        """Return what changes whenever another program commits to the database.

        The first bytes have a counter, which two commits within one tick of the clock change too.
        """
        return self.state(), _first_bytes(self._path, self._files)

    # -- errors ------------------------------------------------------------------------------

    def _told(self, error: sqlite3.Error) -> Exception:
        name, code = printable(self._path.name), error_code(error)
        if code in _BUSY:
            return self._busy()
        if code in DAMAGED:
            return self._damaged(str(error))
        if code == sqlite3.SQLITE_TOOBIG:
            most = OPENCODE_MESSAGE_BYTES_MAX
            return TooLarge(
                f"{name} has a row of more than {most} bytes", limit=most, size=most + 1
            )
        return self._refusal(f"could not read {name}: {error}", errno.EIO)

    def _damaged(self, why: str) -> SessionCorrupt:
        name = printable(self._path.name)
        return SessionCorrupt(f"{name} is a damaged database: {why}", path=printable(self._path))

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


def _asked(uri: str, work: Callable[[sqlite3.Connection], T]) -> T:
    found = sqlite3.connect(uri, uri=True, timeout=OPENCODE_BUSY_SECONDS, isolation_level=None)
    with closing(found) as connection:
        connection.text_factory = _lenient_text
        # A view of another program may make values of any size, too.
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, OPENCODE_MESSAGE_BYTES_MAX)
        bound = _Bound()
        connection.set_progress_handler(bound.is_over, _STEPS)
        connection.execute("BEGIN")
        try:
            return work(connection)
        except sqlite3.OperationalError as error:
            if error_code(error) != sqlite3.SQLITE_INTERRUPT:
                raise
            raise bound.refusal() from error


def _lenient_text(value: bytes) -> str:
    return value.decode(errors="replace")
