"""Ownership of a file: flock decides, a record in `locks/` explains.

The lock belongs to a descriptor, so the lock cannot outlive its process. The record
(`holder`) names the owner to a process that was refused, and tells the next owner which
bytes are in doubt. The record never decides about ownership.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from sessiond.errors import SessionLocked, StorageError
from sessiond.journal.disk.descriptor import write_all
from sessiond.journal.disk.failures import storage_error, telling
from sessiond.journal.disk.files import Files
from sessiond.journal.disk.regular import open_regular
from sessiond.journal.profile.holder import (
    Holder,
    doubt_in,
    may_live,
    read_holder,
    record_of,
    write_record,
)
from sessiond.journal.profile.layout import Layout
from sessiond.model.times import rfc3339
from sessiond.system import SYSTEM

_TOKEN_BYTES: Final = 64
# The errors of file systems without locks.
_NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS})


class Held(Exception):
    """Refusal of a lock that another descriptor has. `holder` is None without a readable record."""

    def __init__(self, holder: Holder | None) -> None:
        super().__init__(holder)
        self.holder = holder


class FileLock:
    """A held lock and its record. The caller closes the descriptor."""

    def __init__(self, files: Files, record: Path, holder: Holder, doubt: int | None) -> None:
        self.doubt = doubt
        """The offset from which an earlier owner left the file in doubt; None for no doubt."""
        self.is_noted = False
        """True if the record is written: a later owner finds it if this process is killed."""
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
        """Lock the file of a descriptor. Raises Held, OSError.

        `durable` is the number of bytes known to be on disk if no earlier owner left the file in
        doubt. None is for an owner that does not write to the file.
        """
        record = record_of(files, fd, locks)
        if not _lock(files, fd):
            holder = read_holder(files, fd, locks)
            # A dead process cannot hold the lock, so its record names the wrong holder.
            raise Held(holder if may_live(files, holder) else None)
        birth = "" if socket is None else SYSTEM.birth_of(files.pid())
        holder = Holder(files.pid(), files.host(), rfc3339(files.now()), socket, birth)
        lock = cls(files, record, holder, doubt_in(files, record))
        # On a full disk sessions can still be read: the lock is held without its record.
        with suppress(OSError):
            lock.note_durable(durable if lock.doubt is None else lock.doubt)
        return lock

    def note_durable(self, durable: int | None) -> None:
        """Record how many bytes of the file are known to be on disk; None for all.

        Raises OSError.
        """
        write_record(self._files, self._record, self._holder, durable)
        self.is_noted = True

    def release(self, *, settled: bool = True) -> None:
        """Remove the record, or leave the record to the next owner if the file is not `settled`.

        Call this before closing the descriptor, which releases the lock: so the removed record is
        never that of the next owner.
        """
        if settled:
            with suppress(OSError):
                self._files.unlink(self._record)


class DaemonLock:
    """The lock of a profile's one daemon, held until `close` or the end of the process."""

    def __init__(self, files: Files, path: Path, fd: int, lock: FileLock) -> None:
        self._files = files
        self._path = path
        self._fd = fd
        self._lock = lock
        self._token: bytes | None = os.urandom(16).hex().encode() + b"\n"
        """The bytes that this owner has written into the file; None if the disk took none."""
        try:
            files.truncate(fd, 0)
            write_all(files, fd, self._token)
        except OSError:
            # On a full disk the profile can still be read.
            self._token = None

    def is_there(self) -> bool:
        """Return False if the profile was removed, or made anew with another file of this name.

        A token in the file tells, since inodes change from look to look on some file systems. Raises OSError if
        nothing can be told.
        """
        try:
            fd = self._files.open_read(self._path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        try:
            found = self._files.pread(fd, _TOKEN_BYTES, 0)
        finally:
            self._files.close(fd)
        return self._token in {None, found}

    def leave(self) -> None:
        """Remove the record, because the process and with it the lock are about to end."""
        self._lock.release()

    def close(self) -> None:
        """Release the lock, so that another daemon can serve the profile."""
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
    """Return the owner of the file from its record, else from the operating system.

    A daemon with another home keeps its records there, so only its pid is known here.
    """
    if holder is not None:
        return {"pid": holder.pid, "host": holder.host, "since": holder.since}
    pid = files.locked_by(fd)
    return None if pid is None else {"pid": pid, "host": files.host(), "since": None}


@contextmanager
def owned(files: Files, path: Path, locks: Path) -> Generator[int]:
    """Lock a session's file during the block, for operations on the file as a whole.

    Yields a descriptor. Raises SessionLocked, and StorageError also if the file is not regular.
    """
    with telling("open", path):
        fd = open_regular(files, path, update=True)
    try:
        with telling("lock", path):
            lock = own_session(files, fd, locks)
        try:
            yield fd
        finally:
            # This owner wrote nothing, so a doubt of an earlier owner stays for the next owner.
            lock.release(settled=lock.doubt is None)
    finally:
        # A failed close closes the descriptor, too.
        with suppress(OSError):
            files.close(fd)


def lock_daemon(files: Files, layout: Layout, socket: str | None = None) -> DaemonLock:
    """Become the daemon of a profile whose folders exist. Raises Held, StorageError.

    `socket` is the socket where the daemon will listen; the record tells it to other programs.
    The locked file is never removed: two daemons could lock two files of that name.
    """
    try:
        try:
            fd = files.create(layout.daemon_lock)
        except FileExistsError:
            fd = files.open_update(layout.daemon_lock)
        try:
            lock = FileLock.take(files, fd, layout.locks, socket)
            return DaemonLock(files, layout.daemon_lock, fd, lock)
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
            text = "its file system has no locks (flock), so two programs could write to it at once"
            raise OSError(error.errno, text) from error
        raise
