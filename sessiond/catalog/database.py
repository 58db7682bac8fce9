"""Opening catalog.sqlite: private, of this version, and never older than its rows.

A file that is no database, or of a version that has nothing to carry over, is
begun anew. One that the disk does not let us open is left alone: that is no
fault of the index, and its epochs cannot be made again.
"""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final

from sessiond.catalog.schema import OtherVersion, prepare
from sessiond.errors import StorageError
from sessiond.limits import LOCKED_SECONDS

__all__ = ["MEMORY", "connect", "open_database", "refused", "remove_database"]

MEMORY: Final = Path(":memory:")


def open_database(path: Path, *, wait: float = LOCKED_SECONDS) -> sqlite3.Connection:
    """Open or begin the file; `wait` is for another process that holds it. Raises StorageError."""
    try:
        return _begun_anew_if_bad(path, wait)
    except (sqlite3.OperationalError, OSError) as error:
        then = "" if path.is_file() else "; move away what is there, it is made again"
        raise refused(error, path, f"cannot open {path}: {error}{then}") from error


def refused(error: sqlite3.Error | OSError, path: Path, text: str) -> StorageError:
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
