"""Who owns a file: flock for the truth, a record beside it for the reader.

The lock lives and dies with a descriptor, so it cannot outlast its process. The
record only tells the loser whom to ask; it may be missing or stale after a
crash and nothing is decided by it. It is keyed by device and inode, so that a
renamed file keeps it and two profiles that open one file find the same record.

    pid 4242
    host workstation
    since 2026-01-15T10:30:00.000Z
    socket /run/user/1000/sessiond/default.sock        (of a daemon that listens)
"""

from __future__ import annotations

import errno
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from sessiond.errors import SessionLocked, StorageError
from sessiond.journal.failures import storage_error, telling
from sessiond.journal.files import Files
from sessiond.journal.layout import Layout
from sessiond.journal.scanning import check_regular
from sessiond.model.times import rfc3339

__all__ = [
    "DaemonLock",
    "FileLock",
    "Held",
    "Holder",
    "holders",
    "lock_daemon",
    "may_live",
    "own_session",
    "owned",
    "read_holder",
]

# What a file system says that has no locks.
_NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS})
# A path has at most 4096 bytes.
_RECORD_BYTES_MAX: Final = 8192


class Holder(Struct, frozen=True):
    """A process that holds a lock."""

    pid: int
    host: str
    since: str
    socket: str | None = None


class Held(Exception):
    """Another descriptor has the lock. `holder` is None if it left no readable record."""

    def __init__(self, holder: Holder | None) -> None:
        super().__init__(holder)
        self.holder = holder


class FileLock:
    """A lock that is held. The descriptor stays its owner's to close."""

    def __init__(self, files: Files, record: Path) -> None:
        self._files = files
        self._record = record

    @classmethod
    def take(cls, files: Files, fd: int, locks: Path, socket: str | None = None) -> FileLock:
        """Lock what the descriptor refers to. Raises Held, OSError."""
        record = _record_of(files, fd, locks)
        if not _lock(files, fd):
            holder = _read(files, record)
            # A record of somebody who is gone is not the holder's.
            raise Held(holder if may_live(files, holder) else None)
        holder = Holder(files.pid(), files.host(), rfc3339(files.now()), socket)
        # A full disk must not keep a session from being read: the lock itself is taken.
        with suppress(OSError):
            _write(files, record, holder)
        return cls(files, record)

    def release(self) -> None:
        """Remove the record. Comes before the close that lets go of the lock itself, so
        that it is never the next owner's record that goes."""
        with suppress(OSError):
            self._files.unlink(self._record)


class DaemonLock:
    """One daemon per profile: held until the process is gone, or until `close`."""

    def __init__(self, files: Files, fd: int, lock: FileLock) -> None:
        self._files = files
        self._fd = fd
        self._lock = lock

    def leave(self) -> None:
        """The process is about to end, and the lock with it: take the record away."""
        self._lock.release()

    def close(self) -> None:
        """Let another daemon serve the profile."""
        self.leave()
        self._files.close(self._fd)


def own_session(files: Files, fd: int, locks: Path) -> FileLock:
    """Lock a session's file. Raises SessionLocked, OSError."""
    try:
        return FileLock.take(files, fd, locks)
    except Held as held:
        holder = held.holder
        raise SessionLocked(
            "the session's file is open already, in another process, another profile or under"
            " another name",
            holder=holder and {"pid": holder.pid, "host": holder.host, "since": holder.since},
        ) from held


@contextmanager
def owned(files: Files, path: Path, locks: Path) -> Generator[int]:
    """A session's file, locked but not read: for what is done to it as a whole.

    Gives a descriptor. Raises SessionLocked, StorageError for what is no regular file.
    """
    with telling("open", path):
        fd = files.open_update(path)
    try:
        with telling("open", path):
            check_regular(files, fd)
        with telling("lock", path):
            lock = own_session(files, fd, locks)
        try:
            yield fd
        finally:
            lock.release()
    finally:
        # A close that fails has closed all the same.
        with suppress(OSError):
            files.close(fd)


def lock_daemon(files: Files, layout: Layout, socket: str | None = None) -> DaemonLock:
    """Become the daemon of a profile whose folders exist. Raises Held, StorageError.

    `socket` is where it will listen, for those who look for it.

    The locked file is never removed: a name that is gone could be locked twice.
    """
    try:
        try:
            fd = files.create(layout.daemon_lock)
        except FileExistsError:
            fd = files.open_update(layout.daemon_lock)
        try:
            return DaemonLock(files, fd, FileLock.take(files, fd, layout.locks, socket))
        except BaseException:
            files.close(fd)
            raise
    except OSError as error:
        told = storage_error(error, "lock", layout.daemon_lock)
        text = f"cannot lock {layout.daemon_lock}: {error.strerror}"
        raise StorageError(text, **told.data()) from error


def read_holder(files: Files, fd: int, locks: Path) -> Holder | None:
    """What is recorded of the holder of an open file; true only while somebody holds it."""
    return _read(files, _record_of(files, fd, locks))


def holders(files: Files, locks: Path) -> list[tuple[Path, Holder | None]]:
    """Every record there is, with who left it if that can be read. Raises OSError."""
    return [(locks / name, _read(files, locks / name)) for name in sorted(files.listdir(locks))]


def may_live(files: Files, holder: Holder | None) -> bool:
    """Whether whoever left a record may still be there; on another machine nobody can say."""
    if holder is None or holder.host != files.host():
        return holder is not None
    return files.is_alive(holder.pid)


def _lock(files: Files, fd: int) -> bool:
    try:
        return files.lock(fd)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            text = "its file system has no locks (flock), and without them it may get two writers"
            raise OSError(error.errno, text) from error
        raise


def _record_of(files: Files, fd: int, locks: Path) -> Path:
    found = files.fstat(fd)
    return locks / f"{found.st_dev:x}-{found.st_ino}"


def _write(files: Files, record: Path, holder: Holder) -> None:
    text = f"pid {holder.pid}\nhost {holder.host}\nsince {holder.since}\n"
    if holder.socket is not None:
        text += f"socket {holder.socket}\n"
    with suppress(FileNotFoundError):
        files.unlink(record)
    fd = files.create(record)
    try:
        files.write(fd, text.encode())
    finally:
        files.close(fd)


def _read(files: Files, record: Path) -> Holder | None:
    try:
        fd = files.open_read(record)
        try:
            text = files.pread(fd, _RECORD_BYTES_MAX, 0).decode()
        finally:
            files.close(fd)
        fields = dict(line.split(" ", 1) for line in text.split("\n") if line)
        return Holder(int(fields["pid"]), fields["host"], fields["since"], fields.get("socket"))
    except (OSError, ValueError, KeyError):
        return None
