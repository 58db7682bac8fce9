"""The only calls into the operating system that concern files.

Law: one method makes one call (or the few that make the call safe) and no decision.
New files are 0600 and new folders 0700, with any umask. Child processes do not
inherit descriptors. Every method may raise OSError. `sessiond.testing.disk.FaultDisk`
overrides each method with a disk in memory that fails on request.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol, TypeVar

from sessiond.system import SYSTEM

T = TypeVar("T")
_COMMON: Final = os.O_CLOEXEC | os.O_NOCTTY


_HALF: Final = 2**63


def storable(number: int) -> int:
    """Return a number of a stat result as 64 bits with a sign, as a database stores it.

    A backup may restore a time behind the year 2262, and a network file system may have larger inodes.
    """
    return (number + _HALF) % (2 * _HALF) - _HALF


class FileStat(Protocol):
    """The fields of a stat result that sessiond uses."""

    @property
    def st_dev(self) -> int:
        """Number of the device."""
        ...

    @property
    def st_ino(self) -> int:
        """Number of the inode; device and inode identify a file under any name."""
        ...

    @property
    def st_mode(self) -> int:
        """Kind and permissions of the file."""
        ...

    @property
    def st_uid(self) -> int:
        """Number of the user who owns the file."""
        ...

    @property
    def st_size(self) -> int:
        """Size of the file in bytes."""
        ...

    @property
    def st_mtime_ns(self) -> int:
        """Time of the last write, in nanoseconds since 1970."""
        ...

    @property
    def st_ctime_ns(self) -> int:
        """Time of the last change of the file or its inode, which no program can set."""
        ...


class Reads(Protocol):
    """A reader of bytes by a descriptor: a disk, and `HeldFile`, which has the bytes of one file in memory."""

    def pread(self, fd: int, count: int, offset: int) -> bytes:
        """Return up to `count` bytes at an offset."""
        ...


class Files:
    """The disk of this machine."""

    # -- descriptors -------------------------------------------------------------

    def create(self, path: Path) -> int:
        """Create a file for reading and writing.

        FileExistsError if the name is taken, by a link too.
        """
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | _COMMON, 0o600)
        try:
            os.fchmod(fd, 0o600)
        except BaseException:
            os.close(fd)
            path.unlink(missing_ok=True)
            raise
        return fd

    def open_read(self, path: Path) -> int:
        """Open a file for reading only, without waiting for the other end of a pipe."""
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | _COMMON)

    def open_update(self, path: Path) -> int:
        """Open a file for reading and writing in place; over NFS a lock needs the right to write."""
        return os.open(path, os.O_RDWR | os.O_NONBLOCK | _COMMON)

    def open_append(self, path: Path) -> int:
        """Open a file for writing at its end, wherever the end is at the moment of a write."""
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | _COMMON)

    def close(self, fd: int) -> None:
        """Close a descriptor, which releases a lock held on it."""
        os.close(fd)

    # -- bytes -------------------------------------------------------------------

    def pread(self, fd: int, count: int, offset: int) -> bytes:
        """Return up to `count` bytes at an offset: fewer near the end, none behind the end."""
        return os.pread(fd, count, offset)

    def write(self, fd: int, data: bytes | memoryview) -> int:
        """Write bytes; return how many of them were written."""
        return os.write(fd, data)

    def pwrite(self, fd: int, data: bytes | memoryview, offset: int) -> int:
        """Write bytes in place; return how many. Not for descriptors that append."""
        return os.pwrite(fd, data, offset)

    def truncate(self, fd: int, size: int) -> None:
        """Cut the file to `size`."""
        os.ftruncate(fd, size)

    def fdatasync(self, fd: int) -> None:
        """Wait until the bytes, and a size that covers them, are on disk."""
        SYSTEM.sync_data(fd)

    def fsync(self, fd: int) -> None:
        """Wait until the bytes and all metadata of the file are on disk."""
        SYSTEM.sync(fd)

    def lock(self, fd: int) -> bool:
        """Lock the file for this descriptor; return False if another descriptor has the lock."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def share(self, fd: int, start: int, count: int) -> bool:
        """Lock bytes of a file as one of several readers; return False if a writer has locked them.

        The lock is the process's: any descriptor of the file that is closed ends the lock.
        """
        try:
            fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB, count, start)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def locked_by(self, fd: int) -> int | None:
        """Return the pid of the process that has locked the file; None if that is unknown."""
        try:
            return SYSTEM.holder_of(fd) or None
        except (OSError, ValueError):
            return None

    def fstat(self, fd: int) -> FileStat:
        """Return the stat result of the file behind a descriptor."""
        return os.fstat(fd)

    def position(self, fd: int) -> int:
        """Return the offset where the last write ended, also for a descriptor that appends."""
        return os.lseek(fd, 0, os.SEEK_CUR)

    def replace(self, fd: int, by: int) -> None:
        """Let `fd` refer to the file of `by`; close `by`. Running calls finish on the old file."""
        os.dup2(by, fd, inheritable=False)
        os.close(by)

    # -- names -------------------------------------------------------------------

    def stat(self, path: Path) -> FileStat:
        """Return the stat result of the file that the name leads to."""
        return os.stat(path)  # noqa: PTH116 - asked before every write

    def lstat(self, path: Path) -> FileStat:
        """Return the stat result of the name itself; for a link, of the link."""
        return os.lstat(path)

    def exists(self, path: Path | str) -> bool:
        """Return whether the name leads to a file or folder; False for a dangling link."""
        return Path(path).exists()

    def real(self, path: Path | str) -> str:
        """Return the path without links, as far as it is there."""
        return os.path.realpath(path)

    def listdir(self, folder: Path) -> list[str]:
        """Return the names in a folder, in no order."""
        return os.listdir(folder)  # noqa: PTH208 - a Path per name is what makes iterdir slow

    def stats(self, folder: Path) -> dict[str, FileStat]:
        """Return the stat result for every name in a folder, without files removed meanwhile.

        A link that is dangling or circular gets the stat result of the link, so that one bad link
        does not hide the other names.
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
        """Rename a file; replaces a file that has the new name."""
        old.rename(new)

    def rename_new(self, old: Path, new: Path) -> None:
        """Rename a file; FileExistsError if the new name is taken.

        Some file systems cannot do this.
        """
        SYSTEM.rename_new(old, new)

    def link(self, old: Path, new: Path) -> None:
        """Give a file a second name; FileExistsError if the name is taken."""
        new.hardlink_to(old)

    def touch(self, path: Path) -> None:
        """Set the times of a file to now."""
        os.utime(path)

    def unlink(self, path: Path) -> None:
        """Remove a name."""
        path.unlink()

    def make_folder(self, path: Path) -> bool:
        """Make a folder for its owner only; return False if it existed. Its parent must exist."""
        made = True
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            if not path.is_dir():
                raise
            made = False
        path.chmod(0o700)
        return made

    def make_shared_folder(self, path: Path, mode: int) -> bool:
        """Make a folder with these permissions, less the umask; return False if it existed."""
        try:
            path.mkdir(mode=mode)
        except FileExistsError:
            if not path.is_dir():
                raise
            return False
        return True

    def fsync_folder(self, folder: Path) -> None:
        """Wait until the names in a folder are on disk."""
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | _COMMON)
        try:
            SYSTEM.sync(fd)
        finally:
            os.close(fd)

    def is_local(self, path: Path) -> bool:
        """Return whether this machine alone changes the file system of a path, as far as is known."""
        return SYSTEM.is_local(path)

    def together(self, path: Path, looks: Callable[[Files], T], seconds: float = 0) -> T:  # noqa: ARG002
        """Return what several looks at one place find, also by libraries that call the system themselves.

        The looks get this disk. `seconds` is what they may take although their place answers.
        """
        return looks(self)

    def visit(self, path: Path, work: Callable[[], T]) -> T:  # noqa: ARG002
        """Return the result of work that looks at one place many times through this disk."""
        return work()

    # -- the process -------------------------------------------------------------

    def descriptors_max(self) -> int:
        """Return how many descriptors this process may have; `sys.maxsize` if that is unknown."""
        try:
            soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        except OSError:
            return sys.maxsize
        return sys.maxsize if soft == resource.RLIM_INFINITY else soft

    def descriptors_used(self) -> int:
        """Return how many descriptors this process has; 0 if that is unknown."""
        try:
            return len(os.listdir("/dev/fd")) - 1  # noqa: PTH208 - names are all that is wanted
        except OSError as error:
            # Listing the folder needs a descriptor, too.
            full = error.errno in {errno.EMFILE, errno.ENFILE}
            return self.descriptors_max() if full else 0

    def pid(self) -> int:
        """Return the id of this process."""
        return os.getpid()

    def is_alive(self, pid: int) -> bool:
        """Return whether a process with this id exists on this machine."""
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except OSError:
            # The process belongs to another user.
            return True
        return True

    def host(self) -> str:
        """Return the name of this machine."""
        return os.uname().nodename

    def now(self) -> float:
        """Return the time in seconds since 1970."""
        return time.time()

    def booted_at(self) -> float:
        """Return when this machine was started, in seconds since 1970; 0 if that is unknown."""
        clock: int | None = getattr(time, "CLOCK_BOOTTIME", None)
        return 0.0 if clock is None else time.time() - time.clock_gettime(clock)

    def monotonic(self) -> float:
        """Return seconds since an arbitrary moment, for durations."""
        return time.monotonic()

    def pause(self, seconds: float) -> None:
        """Pause this thread."""
        time.sleep(seconds)

    def random_digits(self) -> str:
        """Return 32 hex digits that no program can predict."""
        return os.urandom(16).hex()
