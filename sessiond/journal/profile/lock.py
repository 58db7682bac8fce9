"""Who owns a file: flock for the truth, a record beside it for the reader.

The lock lives and dies with a descriptor, so it cannot outlast its process. The
record (`holder`) tells the loser whom to ask, and the next owner what is in doubt;
who owns the file is not decided by it.
"""

from __future__ import annotations

import errno
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from sessiond.errors import SessionLocked, StorageError
from sessiond.journal.disk.failures import storage_error, telling
from sessiond.journal.disk.files import Files
from sessiond.journal.disk.regular import open_regular
from sessiond.journal.profile.holder import (
    Holder,
    doubt_in,
    may_live,
    read_record,
    record_of,
    write_record,
)
from sessiond.journal.profile.layout import Layout
from sessiond.model.times import rfc3339

__all__ = [
    "DaemonLock",
    "FileLock",
    "Held",
    "lock_daemon",
    "own_session",
    "owned",
]

# What a file system says that has no locks.
_NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS})


class Held(Exception):
    """Another descriptor has the lock. `holder` is None if it left no readable record."""

    def __init__(self, holder: Holder | None) -> None:
        super().__init__(holder)
        self.holder = holder


class FileLock:
    """A lock that is held. The descriptor stays its owner's to close."""

    def __init__(self, files: Files, record: Path, holder: Holder, doubt: int | None) -> None:
        self.doubt = doubt
        """From which byte on an earlier owner left the file in doubt; None: nowhere."""
        self.is_noted = False
        """Whether a later owner would find a record of this one, should this process be killed."""
        self._files = files
        self._record = record
        self._holder = holder

    @classmethod
    def take(
        cls,
        files: Files,
        fd: int,
        locks: Path,
        socket: str | None = None,
        *,
        durable: int | None = None,
    ) -> FileLock:
        """Lock what the descriptor refers to. Raises Held, OSError.

        `durable` is how much of the file is known to be on disk if no earlier owner left it in
        doubt; None is right for an owner that writes nothing into the file.
        """
        record = record_of(files, fd, locks)
        if not _lock(files, fd):
            holder = read_record(files, record)
            # A record of somebody who is gone is not the holder's.
            raise Held(holder if may_live(files, holder) else None)
        holder = Holder(files.pid(), files.host(), rfc3339(files.now()), socket)
        lock = cls(files, record, holder, doubt_in(files, record))
        # A full disk must not keep a session from being read: the lock itself is taken.
        with suppress(OSError):
            lock.note_durable(durable if lock.doubt is None else lock.doubt)
        return lock

    def note_durable(self, durable: int | None) -> None:
        """Record up to which byte the file is known to be on disk; None is all. Raises OSError."""
        write_record(self._files, self._record, self._holder, durable)
        self.is_noted = True

    def release(self, *, settled: bool = True) -> None:
        """Remove the record, or leave it to the next owner if the file is not `settled`.

        Comes before the close that lets go of the lock itself, so that it is never the next
        owner's record that goes.
        """
        if settled:
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


def own_session(files: Files, fd: int, locks: Path, *, durable: int | None = None) -> FileLock:
    """Lock a session's file; `durable` as in `FileLock.take`. Raises SessionLocked, OSError."""
    try:
        return FileLock.take(files, fd, locks, durable=durable)
    except Held as held:
        raise SessionLocked(
            "the session's file is open already, in another process, another profile or under"
            " another name",
            holder=_told(files, fd, held.holder),
        ) from held


def _told(files: Files, fd: int, holder: Holder | None) -> dict[str, int | str | None] | None:
    """Return who has the file, by its record or by what the system says.

    The daemon of another home keeps its records there, so of that one only the pid is known.
    """
    if holder is not None:
        return {"pid": holder.pid, "host": holder.host, "since": holder.since}
    pid = files.locked_by(fd)
    return None if pid is None else {"pid": pid, "host": files.host(), "since": None}


@contextmanager
def owned(files: Files, path: Path, locks: Path) -> Generator[int]:
    """A session's file, locked but not read: for what is done to it as a whole.

    Gives a descriptor. Raises SessionLocked, StorageError for what is no regular file.
    """
    with telling("open", path):
        fd = open_regular(files, path, update=True)
    try:
        with telling("lock", path):
            lock = own_session(files, fd, locks)
        try:
            yield fd
        finally:
            # Nothing was written, so a doubt that an earlier owner left is the next one's.
            lock.release(settled=lock.doubt is None)
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


def _lock(files: Files, fd: int) -> bool:
    try:
        return files.lock(fd)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            text = "its file system has no locks (flock), and without them it may get two writers"
            raise OSError(error.errno, text) from error
        raise
