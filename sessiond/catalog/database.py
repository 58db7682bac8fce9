"""Opening catalog.sqlite: private, of this version, and never older than its rows.

A file that is no database, or of a version that has nothing to carry over, is
begun anew. One that the disk does not let us open is left alone: that is no
fault of the index, and its epochs cannot be made again. Nor is what is no regular file touched.
"""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

from sessiond.catalog.schema import OtherVersion, prepare
from sessiond.errors import StorageError
from sessiond.limits import LOCKED_SECONDS

__all__ = [
    "MEMORY",
    "connect",
    "copy_rows",
    "open_database",
    "open_stand_in",
    "refused",
    "remove_database",
]

MEMORY: Final = Path(":memory:")


def open_database(path: Path, *, wait: float = LOCKED_SECONDS) -> sqlite3.Connection:
    """Open or begin the file; `wait` is for another process that holds it. Raises StorageError."""
    try:
        return _begun_anew_if_bad(path, wait)
    except (sqlite3.DatabaseError, OtherVersion, OSError) as error:
        then = "" if path.is_file() else "; move away what is there, it is made again"
        raise refused(error, path, f"cannot open {path}: {error}{then}") from error


def open_stand_in(path: Path) -> sqlite3.Connection:
    """Open a database in memory with the rows of a file, or with none if they cannot be read."""
    memory = sqlite3.connect(MEMORY, check_same_thread=False)
    try:
        if path.is_file():
            # Without waiting, and without the right to change anything.
            with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=0)) as file:
                copy_rows(file, memory)
        prepare(memory)
    except (sqlite3.DatabaseError, OtherVersion, OSError):
        memory.close()
        return connect(MEMORY)
    return memory


def copy_rows(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    """Copy a database. Raises DatabaseError also when the copy would have to wait."""
    source.backup(target, progress=_go_on)


def _go_on(status: int, _remaining: int, _total: int) -> None:
    # Left to itself a backup asks for a locked file again and again, for ever.
    if status not in {sqlite3.SQLITE_OK, sqlite3.SQLITE_DONE}:
        raise sqlite3.OperationalError("the database is locked")


def refused(error: Exception, path: Path, text: str) -> StorageError:
    """What SQLite said, or the system when the file was made ready for it."""
    name = "ENOSPC" if _code(error) == sqlite3.SQLITE_FULL else "EIO"
    if isinstance(error, OSError):
        name = errno.errorcode.get(error.errno or errno.EIO, "EIO")
    again = name not in StorageError.for_good
    return StorageError(text, errno=name, path=str(path), retryable=again)


def _code(error: Exception) -> int:
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def _begun_anew_if_bad(path: Path, wait: float) -> sqlite3.Connection:
    try:
        return connect(path, wait=wait)
    except sqlite3.OperationalError:
        raise
    except (sqlite3.DatabaseError, OtherVersion):
        remove_database(path)
        return connect(path, wait=wait)


def remove_database(path: Path, *, keep: bool = False) -> None:
    """Remove the file and what SQLite keeps beside it; `keep`: only what is beside it."""
    for suffix in ("-wal", "-shm") if keep else ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def connect(
    path: Path,
    prepare: Callable[[sqlite3.Connection], None] = prepare,
    *,
    wait: float = LOCKED_SECONDS,
) -> sqlite3.Connection:
    """A connection with the tables of this version. Raises sqlite3.Error, OtherVersion, OSError."""
    if path is not MEMORY:
        if not path.exists():
            # The log of a file that was deleted is not this one's.
            remove_database(path, keep=True)
        elif not path.is_file():
            raise OSError(errno.EINVAL, "it is not a regular file")
        # SQLite would take the umask's word for it; its -wal and -shm take the mode of this file.
        path.touch(mode=0o600)
        path.chmod(0o600)
    connection = sqlite3.connect(path, timeout=wait, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection
