"""Opening of SQLite files: private, of this version, and never with the log of an older file.

A file that is no database, or of a version without epochs to carry over, is replaced by an
empty one. A file that cannot be opened because of the disk is left alone: its index is not
damaged, and its epochs cannot be made again. Anything but a regular file is left alone, too.
No file is made where SQLite cannot open the path, because the path is too long.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

from sessiond.catalog.home import bring_home
from sessiond.catalog.schema import OtherVersion, prepare
from sessiond.errors import StorageError
from sessiond.limits import LOCKED_SECONDS

__all__ = [
    "DAMAGED",
    "FAILURES",
    "MEMORY",
    "PERHAPS_DAMAGED",
    "UNNAMED",
    "connect",
    "copy_rows",
    "error_code",
    "has_tables_of",
    "open_database",
    "open_stand_in",
    "refused",
    "remove_database",
    "require_openable",
]

MEMORY: Final = Path(":memory:")
UNNAMED: Final = Path("unnamed")
"""A database that its connection alone has: in memory as long as it is small, else in a file without a name."""

# SQLite's own bound of a path is 512 bytes, with the longest ending of a file beside the database.
# SQLite follows links before it counts, so that no link makes a path shorter.
_PATH_BYTES_MAX: Final = 512 - len("-journal")

_TABLES: Final = "SELECT type, name, sql FROM sqlite_master ORDER BY type, name"
# SQLite repeats damaged names in its words for the damage, and the words are no UTF-8 then.
FAILURES: Final = (sqlite3.DatabaseError, UnicodeDecodeError)
"""The errors that a damaged file causes; a wrong statement causes the first one too."""
DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
"""The codes of damage alone."""
PERHAPS_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR})
"""The codes that an OperationalError of a damaged file has; a wrong statement has the second, too."""


def open_database(path: Path, *, wait: float = LOCKED_SECONDS) -> sqlite3.Connection:
    """Open or create the file. Raises StorageError.

    Waits up to `wait` seconds for another process that has the file locked.
    """
    try:
        return _begun_anew_if_bad(path, wait)
    except (*FAILURES, OtherVersion, OSError) as error:
        is_other = os.path.lexists(path) and not path.is_file()
        then = ": move it away, a new one is made" if is_other else ""
        raise refused(error, path, f"cannot open {path}: {error}{then}") from error


def open_stand_in(path: Path) -> sqlite3.Connection:
    """Open a database in memory with the rows of a file, or with none if they cannot be read."""
    memory = sqlite3.connect(MEMORY, check_same_thread=False)
    try:
        if path.is_file():
            # Read-only, and without waiting for another process.
            with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=0)) as file:
                copy_rows(file, memory)
        _prepare_at(path.parent, memory)
    except (*FAILURES, OtherVersion, OSError):
        memory.close()
        return connect(MEMORY)
    return memory


def require_openable(path: Path) -> None:
    """Raise OSError for a path that is too long for SQLite."""
    size = len(os.fsencode(os.path.realpath(path)))
    if size > _PATH_BYTES_MAX:
        text = (
            f"its path has {size} bytes, and SQLite opens paths of at most {_PATH_BYTES_MAX} bytes"
        )
        raise OSError(errno.ENAMETOOLONG, text)


def copy_rows(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    """Copy a database. Raises DatabaseError, also if the copy would have to wait."""
    source.backup(target, progress=_go_on)


def _go_on(status: int, _remaining: int, _total: int) -> None:
    # By default a backup retries a locked file for ever.
    if status not in {sqlite3.SQLITE_OK, sqlite3.SQLITE_DONE}:
        raise sqlite3.OperationalError("the database is locked")


def refused(error: Exception, path: Path, text: str) -> StorageError:
    """Return the StorageError for an error of SQLite or of the operating system."""
    name = "ENOSPC" if error_code(error) == sqlite3.SQLITE_FULL else "EIO"
    if isinstance(error, OSError):
        name = errno.errorcode.get(error.errno or errno.EIO, "EIO")
    again = name not in StorageError.for_good
    return StorageError(text, errno=name, path=str(path), retryable=again)


def error_code(error: Exception) -> int:
    """Return SQLite's code for an error; SQLITE_MISUSE for an error of the statement itself."""
    found: int | None = getattr(error, "sqlite_errorcode", None)
    if found is not None:
        return found & 0xFF
    # The module has no code where a text is no UTF-8, in a row or in the words of SQLite.
    is_damage = isinstance(error, UnicodeDecodeError | sqlite3.OperationalError)
    return sqlite3.SQLITE_CORRUPT if is_damage else sqlite3.SQLITE_MISUSE


def has_tables_of(fresh: sqlite3.Connection, connection: sqlite3.Connection) -> bool:
    """Return whether a database has the tables of a fresh one, which is closed."""
    with closing(fresh):
        try:
            return connection.execute(_TABLES).fetchall() == fresh.execute(_TABLES).fetchall()
        except FAILURES:
            return False


def _begun_anew_if_bad(path: Path, wait: float) -> sqlite3.Connection:
    try:
        return connect(path, partial(_prepare_at, path.parent), wait=wait)
    except (*FAILURES, OtherVersion) as error:
        if isinstance(error, sqlite3.OperationalError) and error_code(error) not in PERHAPS_DAMAGED:
            raise
        remove_database(path)
        return connect(path, partial(_prepare_at, path.parent), wait=wait)


def _prepare_at(folder: Path, connection: sqlite3.Connection) -> None:
    """Make the tables of this version, with rows that name the files of the profile in a folder."""
    prepare(connection)
    bring_home(connection, folder)


def remove_database(path: Path, *, keep: bool = False) -> None:
    """Remove the file and SQLite's files beside it; with `keep` the file itself stays."""
    for suffix in ("-wal", "-shm") if keep else ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def connect(
    path: Path,
    prepare: Callable[[sqlite3.Connection], None] = prepare,
    *,
    wait: float = LOCKED_SECONDS,
) -> sqlite3.Connection:
    """Open a connection and make the tables of this version.

    Raises sqlite3.Error, OtherVersion, OSError.
    """
    has_path = path is not MEMORY and path is not UNNAMED
    is_new = has_path and not path.exists()
    if has_path:
        require_openable(path)
        if is_new:
            # A log beside a missing file belongs to the deleted file, not to a new one.
            remove_database(path, keep=True)
        elif not path.is_file():
            raise OSError(errno.EINVAL, "it is not a regular file")
        # SQLite would use the umask's mode. The -wal and -shm files get the mode of the file.
        path.touch(mode=0o600)
        path.chmod(0o600)
    name = "" if path is UNNAMED else path
    connection = sqlite3.connect(name, timeout=wait, check_same_thread=False)
    try:
        # An empty file is not worth a wait: one that a power cut leaves damaged is made anew.
        connection.execute(f"PRAGMA synchronous = {'OFF' if is_new else 'NORMAL'}")
        connection.execute("PRAGMA journal_mode = WAL")
        prepare(connection)
        connection.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        connection.close()
        raise
    return connection
