"""The only calls into the operating system that concern files.

Law: one method, one call (or the few that make it safe), no decision. What is
made here is 0600 or 0700 whatever the umask, and is not inherited by children.
Every method may raise OSError. `sessiond.testing.disk.FaultDisk` overrides each
of them with a disk in memory that fails on request.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from sessiond.system import SYSTEM

__all__ = ["FileStat", "Files"]

_COMMON: Final = os.O_CLOEXEC | os.O_NOCTTY


class FileStat(Protocol):
    """The part of a stat result that is used."""

    @property
    def st_dev(self) -> int:
        """The device."""
        ...

    @property
    def st_ino(self) -> int:
        """The inode; with the device, the identity of a file under any name."""
        ...

    @property
    def st_mode(self) -> int:
        """Kind and permissions."""
        ...

    @property
    def st_size(self) -> int:
        """Bytes."""
        ...

    @property
    def st_mtime_ns(self) -> int:
        """When it was written last."""
        ...


class Files:
    """The disk of this machine."""

    # -- descriptors -------------------------------------------------------------

    def create(self, path: Path) -> int:
        """A new file for reading and writing; FileExistsError if the name is taken, also by a link."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | _COMMON, 0o600)
        try:
            os.fchmod(fd, 0o600)
        except BaseException:
            os.close(fd)
            path.unlink(missing_ok=True)
            raise
        return fd

    def open_read(self, path: Path) -> int:
        """For reading only. Does not wait for the other end of a pipe."""
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | _COMMON)

    def open_update(self, path: Path) -> int:
        """For reading and for writing in place; over NFS a lock needs the right to write."""
        return os.open(path, os.O_RDWR | os.O_NONBLOCK | _COMMON)

    def open_append(self, path: Path) -> int:
        """For writing at the end, wherever that is at the moment of the write."""
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | _COMMON)

    def close(self, fd: int) -> None:
        """Let go of a descriptor, and of a lock held on it."""
        os.close(fd)

    # -- bytes -------------------------------------------------------------------

    def pread(self, fd: int, count: int, offset: int) -> bytes:
        """Up to `count` bytes; fewer near the end, none behind it."""
        return os.pread(fd, count, offset)

    def write(self, fd: int, data: bytes | memoryview) -> int:
        """Write, and say how much of it was."""
        return os.write(fd, data)

    def pwrite(self, fd: int, data: bytes | memoryview, offset: int) -> int:
        """Write in place; not for descriptors that append."""
        return os.pwrite(fd, data, offset)

    def truncate(self, fd: int, size: int) -> None:
        """Cut the file to `size`."""
        os.ftruncate(fd, size)

    def fdatasync(self, fd: int) -> None:
        """Wait until the bytes, and the size that reaches them, are on disk."""
        SYSTEM.sync_data(fd)

    def fsync(self, fd: int) -> None:
        """Wait until everything about the file is on disk."""
        SYSTEM.sync(fd)

    def lock(self, fd: int) -> bool:
        """Take the file for this descriptor alone; False if another has it."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def locked_by(self, fd: int) -> int | None:
        """Return the pid of the process that has locked the file; None if that is unknown."""
        try:
            return SYSTEM.holder_of(fd) or None
        except (OSError, ValueError):
            return None

    def fstat(self, fd: int) -> FileStat:
        """What the descriptor refers to."""
        return os.fstat(fd)

    def position(self, fd: int) -> int:
        """Where the last write ended; of a descriptor that appends, wherever that came to be."""
        return os.lseek(fd, 0, os.SEEK_CUR)

    def replace(self, fd: int, by: int) -> None:
        """Let `fd` refer to what `by` does, and close that; calls that run finish on the old file."""
        os.dup2(by, fd, inheritable=False)
        os.close(by)

    # -- names -------------------------------------------------------------------

    def stat(self, path: Path) -> FileStat:
        """What the name refers to."""
        return os.stat(path)  # noqa: PTH116 - asked before every write

    def lstat(self, path: Path) -> FileStat:
        """What has the name: of a link the link, wherever it leads."""
        return os.lstat(path)

    def exists(self, path: Path | str) -> bool:
        """Whether the name leads to something; a link that leads nowhere is not there."""
        return Path(path).exists()

    def listdir(self, folder: Path) -> list[str]:
        """The names in a folder, in no order."""
        return os.listdir(folder)  # noqa: PTH208 - a Path per name is what makes iterdir slow

    def stats(self, folder: Path) -> dict[str, FileStat]:
        """Every name in a folder with what it refers to; what goes meanwhile is left out.

        A link that leads nowhere, or in a circle, stands for itself: one must not hide the others.
        """
        found: dict[str, FileStat] = {}
        with os.scandir(folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    try:
                        found[entry.name] = entry.stat()
                    except OSError:
                        found[entry.name] = entry.stat(follow_symlinks=False)
        return found

    def rename(self, old: Path, new: Path) -> None:
        """Give a file another name; replaces what had that name."""
        old.rename(new)

    def rename_new(self, old: Path, new: Path) -> None:
        """Give a file another name; FileExistsError if that is taken. Some file systems cannot."""
        SYSTEM.rename_new(old, new)

    def link(self, old: Path, new: Path) -> None:
        """Give a file a second name; FileExistsError if that is taken."""
        new.hardlink_to(old)

    def touch(self, path: Path) -> None:
        """Let a file count as written to just now."""
        os.utime(path)

    def unlink(self, path: Path) -> None:
        """Take a name away."""
        path.unlink()

    def make_folder(self, path: Path) -> bool:
        """A folder for its owner only; False if it was there. Its parent must exist."""
        made = True
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            if not path.is_dir():
                raise
            made = False
        path.chmod(0o700)
        return made

    def fsync_folder(self, folder: Path) -> None:
        """Wait until the names in a folder are on disk."""
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | _COMMON)
        try:
            SYSTEM.sync(fd)
        finally:
            os.close(fd)

    # -- the process -------------------------------------------------------------

    def descriptors_max(self) -> int:
        """How many this process may have; very many where the system does not say."""
        try:
            soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        except OSError:
            return sys.maxsize
        return sys.maxsize if soft == resource.RLIM_INFINITY else soft

    def descriptors_used(self) -> int:
        """How many it has; 0 where the system does not say."""
        try:
            return len(os.listdir("/dev/fd")) - 1  # noqa: PTH208 - names are all that is wanted
        except OSError as error:
            # To look takes one, too.
            full = error.errno in {errno.EMFILE, errno.ENFILE}
            return self.descriptors_max() if full else 0

    def pid(self) -> int:
        """This process."""
        return os.getpid()

    def is_alive(self, pid: int) -> bool:
        """Whether there is such a process on this machine."""
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except OSError:
            # It is somebody else's.
            return True
        return True

    def host(self) -> str:
        """This machine."""
        return os.uname().nodename

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def booted_at(self) -> float:
        """When this machine was started, in seconds since 1970; 0 where the system does not say."""
        clock: int | None = getattr(time, "CLOCK_BOOTTIME", None)
        return 0.0 if clock is None else time.time() - time.clock_gettime(clock)

    def monotonic(self) -> float:
        """Seconds since some moment, for durations."""
        return time.monotonic()

    def pause(self, seconds: float) -> None:
        """Let time pass in this thread."""
        time.sleep(seconds)

    def random_digits(self) -> str:
        """32 hex digits that no program can foretell."""
        return os.urandom(16).hex()
