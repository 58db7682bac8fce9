"""Known session files: where they are, what they said last, under which epoch.

The catalog is never the truth. A row is believed only while the file has the
inode, size and time it was written for; deleting `catalog.sqlite` costs a scan
and gives every session a new epoch, nothing else. Blocking: called in worker
threads, from any of them.
"""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import Final

from msgspec import Struct

from sessiond.errors import StorageError

__all__ = ["Catalog", "Fingerprint", "KnownSession"]

_VERSION: Final = 1
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS sessions (
    session_id TEXT PRIMARY KEY,
    path TEXT NOT NULL,
    epoch TEXT NOT NULL,
    seen_seq INTEGER NOT NULL,
    seen_digest TEXT NOT NULL,
    inode INTEGER NOT NULL,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    info BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS sessions_by_path ON sessions (path);
"""
_COLUMNS: Final = "session_id, path, epoch, seen_seq, seen_digest, inode, size, mtime_ns, info"


class Fingerprint(Struct, frozen=True):
    """What tells whether a file is still the one a row speaks of."""

    inode: int
    size: int
    mtime_ns: int


class KnownSession(Struct, frozen=True):
    """One row. `seen_seq` and `seen_digest` name the last line the epoch was seen with."""

    session_id: str
    path: str
    epoch: str
    seen_seq: int
    seen_digest: str
    fingerprint: Fingerprint
    info: bytes


class Catalog:
    """The table of known sessions in one SQLite file."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._connection = _open(path)

    def get(self, session_id: str) -> KnownSession | None:
        """What is known of a session."""
        return self._one("session_id = ?", session_id)

    def by_path(self, path: str) -> KnownSession | None:
        """What is known of a file."""
        return self._one("path = ?", path)

    def all(self) -> list[KnownSession]:
        """Every row."""
        with self._lock:
            rows = self._connection.execute(f"SELECT {_COLUMNS} FROM sessions").fetchall()  # noqa: S608 - constants
        return [_known(row) for row in rows]

    def put(self, known: KnownSession) -> None:
        """Remember a session, in place of what was known of it."""
        mark = known.fingerprint
        row = (
            known.session_id,
            known.path,
            known.epoch,
            known.seen_seq,
            known.seen_digest,
            mark.inode,
            mark.size,
            mark.mtime_ns,
            known.info,
        )
        with self._lock, self._connection:
            self._connection.execute(
                f"INSERT OR REPLACE INTO sessions ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?)",  # noqa: S608
                row,
            )

    def forget(self, session_id: str) -> None:
        """Drop a row; the file is not touched."""
        with self._lock, self._connection:
            self._connection.execute("DELETE FROM sessions WHERE session_id = ?", (session_id,))

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def _one(self, where: str, value: str) -> KnownSession | None:
        with self._lock:
            row = self._connection.execute(
                f"SELECT {_COLUMNS} FROM sessions WHERE {where}",  # noqa: S608 - constants
                (value,),
            ).fetchone()
        return _known(row) if row is not None else None


def _known(row: tuple[str, str, str, int, str, int, int, int, bytes]) -> KnownSession:
    session_id, path, epoch, seen_seq, seen_digest, inode, size, mtime_ns, info = row
    mark = Fingerprint(inode, size, mtime_ns)
    return KnownSession(session_id, path, epoch, seen_seq, seen_digest, mark, info)


def _open(path: Path) -> sqlite3.Connection:
    """Open the catalog; one that is no database, or of another version, is begun anew.

    Raises StorageError, and leaves the catalog alone, when the disk does not let us: it is
    no fault of the index, and its epochs cannot be made again.
    """
    try:
        return _begun_anew_if_bad(path)
    except sqlite3.OperationalError as error:
        full = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_FULL
        name = "ENOSPC" if full else "EIO"
        raise StorageError(f"cannot open {path}: {error}", errno=name, path=str(path)) from error


def _begun_anew_if_bad(path: Path) -> sqlite3.Connection:
    try:
        return _connect(path)
    except sqlite3.OperationalError:
        raise
    except (sqlite3.DatabaseError, _OtherVersion):
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        return _connect(path)


class _OtherVersion(Exception):
    """The file was written by another version; it is an index, so it is rebuilt."""


def _connect(path: Path) -> sqlite3.Connection:
    # SQLite would take the umask's word for it; its -wal and -shm take the mode of this file.
    path.touch(mode=0o600)
    path.chmod(0o600)
    connection = sqlite3.connect(path, check_same_thread=False)
    try:
        _require_version(connection)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.executescript(_SCHEMA)
        connection.execute(f"PRAGMA user_version = {_VERSION}")
        connection.commit()
    except BaseException:
        connection.close()
        raise
    return connection


def _require_version(connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version not in {0, _VERSION}:
        raise _OtherVersion
