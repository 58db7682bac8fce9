"""A SQLite file that may be lost: catalog.sqlite and search.sqlite, which are made from the sessions.

Other programs may delete, replace, damage, change or lock such a file at any time, and the disk may
refuse it. What then happens is decided here, in the same way for each of them:

* A file that is damaged, of another version, deleted, replaced or written to by another program is
  made anew. An error of a statement is a damage unless an empty database gives an error, too: then
  the statement itself is wrong. Rows that make no sense are found by the same rule.
* A file that cannot be used (locked, full disk, no permission, no regular file) is left alone: it is
  not damaged, and the epochs of a catalog cannot be made again. A copy in memory stands in for a
  catalog until its file is usable again. A use of the search index is refused with StorageError.
* What has to leave the file is no matter for a copy: to erase words is refused with StorageError, too.
* No file is made where the path is too long for SQLite. Either database has no file then.
* A wait for another process takes at most LOCKED_SECONDS, and happens only once.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import quote

from msgspec import Struct

from sessiond.errors import StorageError
from sessiond.limits import LOCKED_SECONDS

T = TypeVar("T")

FAILURES: Final = (sqlite3.DatabaseError, TypeError, ValueError, OverflowError, AttributeError)
"""The errors that a damaged file causes, also by rows that make no sense; a wrong statement causes them, too.

SQLite repeats damaged names in its words for a damage, and the words are no UTF-8 then: a ValueError.
"""
DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
"""The codes of damage alone."""
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
# SQLite's own bound of a path is 512 bytes, with the longest ending of a file beside the database.
# SQLite follows links before it counts, so that no link makes a path shorter.
_PATH_BYTES_MAX: Final = 512 - len("-journal")
_EMPTY_LOG: Final = "PRAGMA wal_checkpoint(TRUNCATE)"
_MEMORY: Final = ":memory:"
# A database that its connection alone has: in memory as long as it is small, else in a file without a name.
_UNNAMED: Final = ""


def _stay(_connection: sqlite3.Connection, _folder: Path) -> None:
    """Leave the rows of a database as they are, wherever its file is."""


class Tables(Struct, frozen=True):
    """The tables of a guarded database, and whether memory stands in for its file."""

    name: str
    version: int
    make: Callable[[int], str]
    """The statements that make the tables from those of a version; of version 0 there are none."""
    temporary: str
    """The statements that make what each connection has for itself, where it is missing."""
    carried: range = range(0)
    """The older versions whose rows are carried over; a file of any other version is made anew."""
    arrive: Callable[[sqlite3.Connection, Path], None] = _stay
    """Let the rows fit the folder that the file is in."""
    in_memory: bool = False
    """True where a copy in memory stands in for a file that cannot be used; else a use is refused."""


class GuardedDatabase:
    """The one connection to a SQLite file that may be lost, used by one thread at a time.

    `generation` grows whenever rows were lost.
    """

    def __init__(self, path: Path, tables: Tables, on_trouble: Callable[[str], None]) -> None:
        """Remember the path; the first use opens or creates the file.

        `on_trouble` gets one text per problem with the file.
        """
        self.generation = 0
        self._refused: StorageError | None = None
        """Error that lets a database without a file be used; None while the file is used."""
        self._path = path
        self._tables = tables
        self._on_trouble = on_trouble
        self._lock = _Turns()
        self._connection: sqlite3.Connection | None = None
        self._is_closed = False
        self._identity: tuple[int, int] | None = None
        self._version = 0

    def close(self) -> None:
        """Close the file for good."""
        with self._lock:
            self._is_closed = True
            self._disconnect()

    @property
    def stands_in(self) -> bool:
        """True while a database without a file is used because the file is unusable."""
        return self._refused is not None

    def is_there(self) -> bool:
        """Return whether there is a file, or a database that stands in for it."""
        return self.stands_in or self._path.is_file()

    def look(self) -> None:
        """Check whether another program changed the file, or whether the file is usable again."""
        with self._lock:
            if self.stands_in:
                self._try_file()
            elif self._use(_version) != self._version:
                self._begin_anew("another process wrote to it", remove=True)

    def take_place(self, path: Path) -> None:
        """Let the file take the place of another one, by one renaming. Raises StorageError; both are as they were then."""
        with self._lock:
            if self._is_closed or self.stands_in:
                raise self._refusal(OSError(errno.EBADF, "it was closed, or is not there"))
            (is_held, *_) = self._use(lambda connection: connection.execute(_EMPTY_LOG).fetchone())
            if is_held:
                raise self._refusal(OSError(errno.EBUSY, "another process reads it"))
            self._disconnect()
            try:
                # SQLite would take a log of either for that of the file that comes. Both are empty, or of what goes.
                for log_of in (self._path, path):
                    remove_files(log_of, keep=True)
                self._path.replace(path)
            except OSError as error:
                raise self._refusal(error) from error
            self._path = path

    def refuse(self, why: str) -> None:
        """Discard the file and make a new one, because rows that were read make no sense."""
        with self._lock:
            self._begin_anew(why, remove=True)

    def use(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in one transaction; if the file fails, run `work` again with what follows the file.

        `work` may run several times, also on an empty database, so it changes nothing but tables.
        Raises StorageError, but not while memory can stand in for the file.
        """
        with self._lock:
            return self._use(work)

    def erase(self, work: Callable[[sqlite3.Connection], object]) -> None:
        """Run `work` in one transaction, and overwrite what it deletes, also in the log.

        Raises StorageError while old pages stay: the file cannot be used, or another process reads it.
        The call can be repeated.
        """
        with self._lock:
            if self.stands_in:
                self._try_file()
            self._use(work)
            (is_held, *_) = self._use(lambda connection: connection.execute(_EMPTY_LOG).fetchone())
            if self._refused is not None and self._path.is_file():
                raise self._refused.with_traceback(None)
        if is_held:
            text = (
                f"{self._path} is being read by another process, so deleted words stay in it:"
                " try again once that process has closed it"
            )
            raise StorageError(text, errno="EBUSY", path=str(self._path))

    # -- a use, and what follows its error -------------------------------------------

    def _use(self, work: Callable[[sqlite3.Connection], T]) -> T:
        self._require_same_file()
        tries = 3
        while True:
            try:
                with self._connection or self._open() as connection:
                    return work(connection)
            except FAILURES as error:
                tries -= 1
                if not tries:
                    raise self._refusal(error) from error
                # The second failure may be one of the file or memory that followed.
                self._recover(error, work)

    def _require_same_file(self) -> None:
        if self._connection is None or self.stands_in:
            return
        found = _identity(self._path)
        if found is None and not self._path.parent.exists():
            # A new file cannot be made without the folder, and folder and file may come back.
            return
        # FUSE may give the file another inode at each look.
        if found != self._identity and found == _identity(self._path):
            with suppress(sqlite3.Error):
                # SQLite leaves the log of a file that is gone, and would take it for that of the next file.
                self._connection.execute(_EMPTY_LOG)
            self._begin_anew("it was deleted or replaced", remove=False)

    def _recover(self, error: Exception, work: Callable[[sqlite3.Connection], object]) -> None:
        code = error_code(error)
        if code in _UNUSABLE:
            self._stand_in(error)
        elif code in DAMAGED or not self._fails_on_empty(work):
            self._begin_anew(str(error), remove=True)
        else:
            raise error

    def _fails_on_empty(self, work: Callable[[sqlite3.Connection], object]) -> bool:
        with closing(self._connect(_MEMORY)) as empty:
            try:
                work(empty)
            except FAILURES:
                return True
            return False

    def _begin_anew(self, why: str, *, remove: bool) -> None:
        self._tell_anew(why)
        self._disconnect()
        self.generation += 1
        if self.stands_in:
            self._adopt(self._without_file())
        else:
            self._open(remove=remove)

    def _stand_in(self, error: Exception, *, is_empty: bool = False) -> sqlite3.Connection:
        """Go on without the file, with its rows as far as they can be read. Raises StorageError."""
        refusal = self._refusal(error)
        is_too_long = refusal.data()["errno"] == "ENAMETOOLONG"
        if self.stands_in or not (self._tables.in_memory or is_too_long):
            raise refusal from error
        self._on_trouble(f"the {self._tables.name} is kept in memory: {refusal}")
        memory = self._without_file()
        try:
            if self._connection is not None:
                _copy(self._connection, memory)
            elif not is_empty and self._path.is_file():
                # Without waiting for another process.
                read_only(self._path, lambda file: _copy(file, memory), wait=0)
            self._prepare(memory)
        except (*FAILURES, OSError):
            memory.close()
            memory = self._without_file()
            self.generation += 1
        self._disconnect()
        self._refused = refusal
        return self._adopt(memory)

    def _try_file(self) -> None:
        """Write the copy in memory to the file if the file is usable again, without waiting."""
        if self._connection is None:
            return
        try:
            file = self._open_file(wait=0)
        except StorageError as error:
            self._refused = error
            return
        try:
            _copy(self._connection, file)
            file.execute("PRAGMA journal_mode = WAL")
            file.execute(f"PRAGMA busy_timeout = {int(LOCKED_SECONDS * 1000)}")
        except FAILURES:
            file.close()
            return
        self._disconnect()
        self._refused = None
        self._adopt(file)

    # -- connections -----------------------------------------------------------------

    def _open(self, *, remove: bool = False) -> sqlite3.Connection:
        """Open or create the file, or what stands in for it. Raises StorageError."""
        if self._is_closed:
            # Another daemon may have the file by now.
            raise self._refusal(OSError(errno.EBADF, "it was closed"))
        try:
            return self._adopt(self._open_file(LOCKED_SECONDS, remove=remove))
        except StorageError as error:
            return self._stand_in(error, is_empty=remove)

    def _open_file(self, wait: float, *, remove: bool = False) -> sqlite3.Connection:
        """Open or create the file; with `remove`, or where it is damaged, in place of what is there.

        Waits up to `wait` seconds for another process that has the file locked. Raises StorageError.
        """
        try:
            require_openable(self._path)
            if not remove:
                try:
                    return self._connect_file(wait)
                except FAILURES as error:
                    if error_code(error) in _UNUSABLE:
                        raise
                    self._tell_anew(str(error))
            remove_files(self._path)
            return self._connect_file(wait)
        except (*FAILURES, OSError) as error:
            raise self._refusal(error) from error

    def _connect_file(self, wait: float) -> sqlite3.Connection:
        path = self._path
        is_new = not path.exists()
        if is_new:
            # A log beside a missing file belongs to the deleted file, not to a new one.
            remove_files(path, keep=True)
        elif not path.is_file():
            raise OSError(errno.EINVAL, "it is not a regular file")
        # SQLite would use the umask's mode. The -wal and -shm files get the mode of the file.
        path.touch(mode=0o600)
        path.chmod(0o600)
        return self._connect(str(path), wait=wait, is_new=is_new)

    def _without_file(self) -> sqlite3.Connection:
        # The texts of all sessions may have no room in memory.
        return self._connect(_MEMORY if self._tables.in_memory else _UNNAMED)

    def _connect(
        self, name: str, *, wait: float = LOCKED_SECONDS, is_new: bool = True
    ) -> sqlite3.Connection:
        connection = sqlite3.connect(name, timeout=wait, check_same_thread=False)
        try:
            # An empty file is not worth a wait: one that a power cut leaves damaged is made anew.
            connection.execute(f"PRAGMA synchronous = {'OFF' if is_new else 'NORMAL'}")
            # Of effect in an empty file alone: pages that become free can be given back to the disk.
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA journal_mode = WAL")
            self._prepare(connection)
            connection.execute("PRAGMA synchronous = NORMAL")
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Make the tables of this version, with rows that fit the folder."""
        tables = self._tables
        (found,) = connection.execute("PRAGMA user_version").fetchone()
        if found not in {0, *tables.carried, tables.version}:
            raise sqlite3.DatabaseError(f"it is of version {found}")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute("PRAGMA secure_delete = ON")
        connection.executescript(tables.temporary)
        if found != tables.version:
            # One transaction: a kill in between leaves the file as it was.
            connection.executescript(
                f"BEGIN IMMEDIATE;{tables.make(found)}"
                f"PRAGMA user_version = {tables.version};COMMIT;"
            )
        tables.arrive(connection, self._path.parent)

    def _adopt(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        self._connection = connection
        self._identity = _identity(self._path)
        self._version = _version(connection)
        return connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # -- words -----------------------------------------------------------------------

    def _tell_anew(self, why: str) -> None:
        self._on_trouble(f"the {self._tables.name} is made again: {why}")

    def _refusal(self, error: Exception) -> StorageError:
        """Return the StorageError for an error of SQLite or of the operating system."""
        if isinstance(error, StorageError):
            return error
        name = "ENOSPC" if error_code(error) == sqlite3.SQLITE_FULL else "EIO"
        if isinstance(error, OSError):
            name = errno.errorcode.get(error.errno or errno.EIO, "EIO")
        path = self._path
        is_other = os.path.lexists(path) and not path.is_file()
        # A catalog that is moved away takes the epochs of its sessions along.
        may_go = is_other or not self._tables.in_memory
        then = "; it may be moved away, and a new one is made" if may_go else ""
        again = name not in StorageError.for_good
        text = f"cannot use {path}: {error}{then}"
        return StorageError(text, errno=name, path=str(path), retryable=again)


class _Turns:
    """A lock that a thread in a loop of uses hands over to the threads that wait for it."""

    def __init__(self) -> None:
        self._next, self._held = threading.Lock(), threading.Lock()

    def __enter__(self) -> None:
        with self._next:
            self._held.acquire()

    def __exit__(self, *_error: object) -> None:
        self._held.release()


def read_only(
    path: Path, read: Callable[[sqlite3.Connection], T], *, wait: float = LOCKED_SECONDS
) -> T:
    """Return what `read` reads of a file, beside which no file appears, in a folder that may be read-only.

    SQLite makes the files of a log for readers, too, and refuses a reader where it cannot make them. So
    a file whose log is empty is read as one at rest, and once more if it has changed meanwhile.
    Raises FAILURES, OSError.
    """
    before = _state(path)
    if not before[1]:
        try:
            found = _read(path, "mode=ro&immutable=1", read, wait)
        except FAILURES:
            if _state(path) == before:
                raise
        else:
            if _state(path) == before:
                return found
    return _read(path, "mode=ro", read, wait)


def _state(path: Path) -> tuple[int, int]:
    """Return what changes with every commit: the time of the file's last change, and the size of its log."""
    log = path.with_name(f"{path.name}-wal")
    return path.stat().st_mtime_ns, log.stat().st_size if log.is_file() else 0


def _read(path: Path, options: str, read: Callable[[sqlite3.Connection], T], wait: float) -> T:
    with closing(sqlite3.connect(address(path, options), uri=True, timeout=wait)) as connection:
        return read(connection)


def address(path: Path, options: str) -> str:
    """Return the URI of a file, with options of SQLite. Raises OSError for a path that is too long."""
    require_openable(path)
    return f"file:{quote(os.fsencode(path.absolute()))}?{options}"


def require_openable(path: Path) -> None:
    """Raise OSError for a path that is too long for SQLite."""
    size = len(os.fsencode(os.path.realpath(path)))
    if size > _PATH_BYTES_MAX:
        text = (
            f"its path has {size} bytes, and SQLite opens paths of at most {_PATH_BYTES_MAX} bytes"
        )
        raise OSError(errno.ENAMETOOLONG, text)


def require_types(row: Sequence[object], types: tuple[type, ...]) -> None:
    """Raise TypeError for a row with a value of another type, which SQLite takes from a damaged file."""
    if tuple(map(type, row)) != types:
        raise TypeError("a row has a value of another type")


def error_code(error: Exception) -> int:
    """Return SQLite's code for an error; SQLITE_MISUSE for an error of the statement itself."""
    found: int | None = getattr(error, "sqlite_errorcode", None)
    if found is not None:
        return found & 0xFF
    # The module has no code where a text is no UTF-8, in a row or in the words of SQLite.
    is_damage = isinstance(error, UnicodeDecodeError | sqlite3.OperationalError)
    return sqlite3.SQLITE_CORRUPT if is_damage else sqlite3.SQLITE_MISUSE


def remove_files(path: Path, *, keep: bool = False) -> None:
    """Remove the file and SQLite's files beside it; with `keep` the file itself stays."""
    for suffix in ("-wal", "-shm") if keep else ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


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
    source.backup(target, progress=_go_on)
    named = "SELECT name FROM temp.sqlite_master WHERE type = 'table'"
    for (table,) in source.execute(named).fetchall():
        for row in source.execute(f"SELECT * FROM {table}").fetchall():  # noqa: S608 - our names
            places = ",".join("?" * len(row))
            target.execute(f"INSERT OR REPLACE INTO {table} VALUES ({places})", row)  # noqa: S608
    target.commit()


def _go_on(status: int, _remaining: int, _total: int) -> None:
    # By default a backup retries a locked file for ever.
    if status not in {sqlite3.SQLITE_OK, sqlite3.SQLITE_DONE}:
        raise sqlite3.OperationalError("the database is locked")
