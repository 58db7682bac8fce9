"""A disk in memory with planned failures and power cuts.

    disk = FaultDisk("/profile")
    disk.fail("fdatasync", nth=2)            the second sync from now raises EIO
    disk.fail(None, nth=7)                   the seventh call of any kind
    rebooted = disk.crash(keep=100)          what the next start finds after a power cut
    orphaned = disk.kill()                   what it finds when only the process was killed

A FaultDisk can replace `sessiond.journal.disk.files.Files` everywhere. A sync that fails loses the
bytes it should have stored although readers still see them, as on Linux; that is why a sync may not
be tried again.
"""

from __future__ import annotations

import errno as errors
import os
import stat
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, TypeVar

from msgspec import Struct

from sessiond.journal.disk.files import Files, FileStat
from sessiond.testing.faults import Fault, Faults, Gate
from sessiond.testing.platter import Inode, NameChange, Names

__all__ = ["FaultDisk"]

T = TypeVar("T")

_DEVICE: Final = 1


class _Stat(Struct, frozen=True):
    st_dev: int
    st_ino: int
    st_mode: int
    st_size: int
    st_mtime_ns: int
    st_ctime_ns: int
    st_uid: int = os.geteuid()


class _Descriptor(Struct):
    inode: Inode
    reads: bool
    writes: bool
    position: int = 0

    @property
    def appends(self) -> bool:
        return not self.reads


class FaultDisk(Files):
    """`Files` without an operating system, for use from several threads."""

    def __init__(self, *folders: str | Path) -> None:
        self.faults = Faults()
        self.write_bytes_max: int | None = None
        self.capacity: int | None = None
        self.descriptors = 65_536
        self.seconds = 1_768_473_000.0
        self.booted = 0.0
        self._mutex = threading.Lock()
        self._descriptors: dict[int, _Descriptor] = {}
        self._locks: dict[int, int] = {}
        self._next_fd = 3
        self._next_inode = 1
        self._next_digits = 0
        self._ticks = 0
        self._landing: tuple[Inode, bytes] | None = None
        known: dict[Path, Inode | bool] = {Path("/"): True}
        for folder in map(Path, folders):
            known |= dict.fromkeys([folder, *folder.parents], True)
        self._names = Names(known)

    # -- what a test asks for ------------------------------------------------------

    def fail(
        self, op: str | None, *, nth: int = 1, errno: int = errors.EIO, partial: int = 0
    ) -> Fault:
        """Let the nth call of `op` from now fail, once; with None, every call counts.

        Of a write or sync, `partial` bytes reach the file or the platter despite the failure.
        """
        return self.faults.fail(op, nth=nth, errno=errno, partial=partial)

    def heal(self) -> None:
        """Cancel the failures that have not happened yet, and any bound."""
        self.faults.forget_faults()
        self.write_bytes_max = self.capacity = None

    def hold(self, op: str) -> AbstractContextManager[Gate]:
        """Let every call of `op` wait until the gate is opened, or until the end of the block."""
        return self.faults.hold(op)

    def crash(self, *, keep: int = 0, names: int = 0, zeros: int = 0) -> FaultDisk:
        """Return the disk as a reboot finds it.

        Of its unsynced bytes each file keeps `keep`, then at most `zeros` zeros for lost ones. The
        folders keep the first `names` changes.
        """
        left = self._names.after_crash(names)
        inodes = {
            target.number: target.after_crash(keep, zeros)
            for target in left.values()
            if isinstance(target, Inode)
        }
        kept = {
            path: inodes[target.number] if isinstance(target, Inode) else target
            for path, target in left.items()
        }
        disk = self._with(Names(kept))
        # All earlier writes are older than the start of the machine.
        disk.seconds += 2.0
        disk.booted = disk.seconds
        return disk

    def kill(self) -> FaultDisk:
        """Return the disk as the next process finds it after this process was killed.

        The machine goes on, so the page cache stays, with the bytes that a failed sync lost and no
        later sync stores.
        """
        return self._with(self._names.copy())

    def evict(self, path: Path) -> None:
        """Drop a file's clean pages, as a kernel may: bytes lost by a failed sync become zeros."""
        with self._mutex:
            self._inode(path).evict()

    def _with(self, names: Names) -> FaultDisk:
        disk = FaultDisk()
        disk._names = names
        disk._next_inode = self._next_inode
        disk._next_digits = self._next_digits
        disk._ticks = self._ticks
        disk.seconds = self.seconds
        disk.booted = self.booted
        return disk

    def write_as_another(self, path: Path, data: bytes) -> None:
        """Append to a file as a foreign writer: counted nowhere, and without failures."""
        self._write_as_another(self._inode(path), data)

    def _write_as_another(self, inode: Inode, data: bytes) -> None:
        with self._mutex:
            inode.write(len(inode.seen), data)
            self._touch(inode)

    def land(self, path: Path, data: bytes) -> None:
        """Let a foreign writer append right before the next write to the file."""
        self._landing = (self._inode(path), data)

    @property
    def has_landed(self) -> bool:
        """Return whether the bytes given to `land` are in the file."""
        return self._landing is None

    def put(self, path: Path, content: bytes) -> None:
        """Put a durable file that was always there."""
        self._names = Names({**self._names.seen, path: self._new_inode(content)})

    def set_time(self, path: Path, seconds: float) -> None:
        """Set the time of a file's last write, as `touch -d` does."""
        inode = self._inode(path)
        self._touch(inode)
        inode.mtime = int(seconds * 1_000_000_000)

    def leave(self, path: Path, content: bytes) -> bool:
        """Put a durable file as a foreign writer.

        Return False if the name is taken or has no folder.
        """
        return self._names.leave(path, self._new_inode(content))

    def content(self, path: Path) -> bytes:
        """Return the bytes that a reader of the file sees."""
        return bytes(self._inode(path).seen)

    @property
    def paths(self) -> list[Path]:
        """Paths of all files, in order."""
        return sorted(path for path, target in self._names.seen.items() if target is not True)

    @property
    def counts(self) -> Counter[str]:
        """Number of calls of each method."""
        return self.faults.counts

    @property
    def writes(self) -> int:
        """Number of calls that wrote."""
        return self.counts["write"] + self.counts["pwrite"]

    @property
    def syncs(self) -> int:
        """Number of calls that waited for a file's bytes."""
        return self.counts["fdatasync"] + self.counts["fsync"]

    @property
    def open_descriptors(self) -> int:
        """Number of open descriptors."""
        return len(self._descriptors)

    # -- Files: descriptors ----------------------------------------------------------

    def create(self, path: Path) -> int:
        """Create a file for reading and writing."""
        self.faults.arrive("create")
        if path in self._names.seen:
            raise _error(errors.EEXIST)
        if self._names.seen.get(path.parent) is not True:
            raise _error(errors.ENOENT)
        inode = self._new_inode(b"")
        self._names.change(NameChange(path, inode))
        return self._open(_Descriptor(inode, reads=True, writes=True))

    def open_read(self, path: Path) -> int:
        """Open a file for reading only."""
        self.faults.arrive("open_read")
        return self._open(_Descriptor(self._inode(path), reads=True, writes=False))

    def open_update(self, path: Path) -> int:
        """Open a file for reading and for writing in place."""
        self.faults.arrive("open_update")
        return self._open(_Descriptor(self._inode(path), reads=True, writes=True))

    def open_append(self, path: Path) -> int:
        """Open a file for writing at the end."""
        self.faults.arrive("open_append")
        return self._open(_Descriptor(self._inode(path), reads=False, writes=True))

    def close(self, fd: int) -> None:
        """Close a descriptor; the descriptor is closed even if the call fails."""
        descriptor = self._at(fd)
        with self._mutex:
            del self._descriptors[fd]
            if self._locks.get(descriptor.inode.number) == fd:
                del self._locks[descriptor.inode.number]
        self.faults.arrive("close")

    # -- Files: bytes ----------------------------------------------------------------

    def pread(self, fd: int, count: int, offset: int) -> bytes:
        """Return up to `count` bytes at an offset."""
        self.faults.arrive("pread")
        descriptor = self._at(fd)
        if not descriptor.reads:
            raise _error(errors.EBADF)
        with self._mutex:
            return bytes(descriptor.inode.seen[offset : offset + count])

    def write(self, fd: int, data: bytes | memoryview) -> int:
        """Write at the end, or at the descriptor's position."""
        fault = self.faults.meet("write")
        descriptor = self._at(fd, writing=True)
        if self._landing is not None and self._landing[0] is descriptor.inode:
            (inode, theirs), self._landing = self._landing, None
            self._write_as_another(inode, theirs)
        with self._mutex:
            end = len(descriptor.inode.seen)
            start = end if descriptor.appends else descriptor.position
            try:
                written = self._put(descriptor.inode, start, data, fault)
                descriptor.position = start + written
                return written
            finally:
                if descriptor.appends and len(descriptor.inode.seen) > end:
                    # A failing call may have brought bytes to the file too.
                    descriptor.position = len(descriptor.inode.seen)

    def pwrite(self, fd: int, data: bytes | memoryview, offset: int) -> int:
        """Write in place."""
        fault = self.faults.meet("pwrite")
        descriptor = self._at(fd, writing=True)
        assert not descriptor.appends, "Linux would append, whatever the offset"
        with self._mutex:
            return self._put(descriptor.inode, offset, data, fault)

    def truncate(self, fd: int, size: int) -> None:
        """Cut the file."""
        self.faults.arrive("truncate")
        descriptor = self._at(fd)
        if not descriptor.writes:
            raise _error(errors.EINVAL)
        inode = descriptor.inode
        with self._mutex:
            inode.truncate(size)
            self._touch(inode)

    def fdatasync(self, fd: int) -> None:
        """Bring the bytes to the platter."""
        self._sync("fdatasync", fd)

    def fsync(self, fd: int) -> None:
        """Bring the bytes to the platter."""
        self._sync("fsync", fd)

    def lock(self, fd: int) -> bool:
        """Take the file for this descriptor alone."""
        self.faults.arrive("lock")
        number = self._at(fd).inode.number
        with self._mutex:
            return self._locks.setdefault(number, fd) == fd

    def share(self, fd: int, start: int, count: int) -> bool:  # noqa: ARG002 - one process, no writer
        """Lock bytes as one of several readers: no other process has this disk."""
        self.faults.arrive("share")
        self._at(fd)
        return True

    def locked_by(self, fd: int) -> int | None:
        """Return the pid of this process, which is the only one."""
        with self._mutex:
            return self.pid() if self._at(fd).inode.number in self._locks else None

    def fstat(self, fd: int) -> FileStat:
        """Return the state of the descriptor's file."""
        self.faults.arrive("fstat")
        return _stat_of(self._at(fd).inode)

    def position(self, fd: int) -> int:
        """Return where the last write ended. This is no call of the disk: it cannot fail."""
        return self._at(fd).position

    def replace(self, fd: int, by: int) -> None:
        """Make `fd` refer to the file of `by`, and close `by`."""
        with self._mutex:
            before, after = self._descriptors[fd].inode.number, self._descriptors.pop(by)
            if self._locks.get(before) == fd:
                del self._locks[before]
            if self._locks.get(after.inode.number) == by:
                self._locks[after.inode.number] = fd
            self._descriptors[fd] = after

    # -- Files: names ----------------------------------------------------------------

    def stat(self, path: Path) -> FileStat:
        """Return the state of the file of a name."""
        self.faults.arrive("stat")
        return self._stat(path)

    def lstat(self, path: Path) -> FileStat:
        """Return the state of the file of a name; there are no links on this disk."""
        self.faults.arrive("lstat")
        return self._stat(path)

    def _stat(self, path: Path) -> FileStat:
        target = self._names.seen.get(path)
        if target is True:
            # The folder's time is now: a name may have changed a moment ago.
            now = int(self.seconds * 1e9)
            return _Stat(_DEVICE, 0, stat.S_IFDIR | 0o700, 0, now, now)
        return _stat_of(self._inode(path))

    def together(self, path: Path, looks: Callable[[Files], T], seconds: float = 0) -> T:  # noqa: ARG002
        """Return what several looks find: each of them arrives by itself."""
        return looks(self)

    def visit(self, path: Path, work: Callable[[], T]) -> T:  # noqa: ARG002
        """Return the result of work: each of its looks arrives by itself."""
        return work()

    def is_local(self, path: Path) -> bool:  # noqa: ARG002
        """Return True: no other machine changes the disk."""
        return True

    def exists(self, path: Path | str) -> bool:
        """Return whether a file or folder has the name."""
        self.faults.arrive("exists")
        return Path(path) in self._names.seen

    def real(self, path: Path | str) -> str:
        """Return the path: there are no links."""
        self.faults.arrive("real")
        return str(path)

    def listdir(self, folder: Path) -> list[str]:
        """Return the names in a folder."""
        self.faults.arrive("listdir")
        if self._names.seen.get(folder) is not True:
            raise _error(errors.ENOENT)
        with self._mutex:
            return [path.name for path in self._names.seen if path.parent == folder != path]

    def stats(self, folder: Path) -> dict[str, FileStat]:
        """Return the state of every file in a folder, by name."""
        self.faults.arrive("stats")
        if self._names.seen.get(folder) is not True:
            raise _error(errors.ENOENT)
        with self._mutex:
            return {
                path.name: _stat_of(target)
                for path, target in self._names.seen.items()
                if path.parent == folder and isinstance(target, Inode)
            }

    def rename(self, old: Path, new: Path) -> None:
        """Give a file another name."""
        self.faults.arrive("rename")
        inode = self._inode(old)
        if self._names.seen.get(new.parent) is not True:
            raise _error(errors.ENOENT)
        self._names.change(NameChange(new, inode, gone=old))

    def rename_new(self, old: Path, new: Path) -> None:
        """Give a file another name that is free. Counted and failed as a `rename`."""
        self.faults.arrive("rename")
        inode = self._inode(old)
        if new in self._names.seen:
            raise _error(errors.EEXIST)
        if self._names.seen.get(new.parent) is not True:
            raise _error(errors.ENOENT)
        self._names.change(NameChange(new, inode, gone=old))

    def link(self, old: Path, new: Path) -> None:
        """Give a file a second name."""
        self.faults.arrive("link")
        inode = self._inode(old)
        if new in self._names.seen:
            raise _error(errors.EEXIST)
        if self._names.seen.get(new.parent) is not True:
            raise _error(errors.ENOENT)
        self._names.change(NameChange(new, inode))

    def touch(self, path: Path) -> None:
        """Set the time of a file's last write to now."""
        self.faults.arrive("touch")
        with self._mutex:
            self._touch(self._inode(path))

    def unlink(self, path: Path) -> None:
        """Remove a name."""
        self.faults.arrive("unlink")
        self._inode(path)
        self._names.change(NameChange(path, None))

    def make_folder(self, path: Path) -> bool:
        """Make a folder; return False if it exists."""
        self.faults.arrive("make_folder")
        if self._names.seen.get(path) is True:
            return False
        if path in self._names.seen:
            raise _error(errors.EEXIST)
        if self._names.seen.get(path.parent) is not True:
            raise _error(errors.ENOENT)
        self._names.change(NameChange(path, target=True))
        return True

    def make_shared_folder(self, path: Path, mode: int) -> bool:  # noqa: ARG002 - no permissions here
        """Make a folder; return False if it exists. Counted and failed as a `make_folder`."""
        return self.make_folder(path)

    def fsync_folder(self, folder: Path) -> None:
        """Bring the names in a folder to the platter."""
        self.faults.arrive("fsync_folder")
        self._names.sync(folder)

    # -- Files: the process ------------------------------------------------------------

    def descriptors_max(self) -> int:
        """Return the most descriptors that may be open."""
        return self.descriptors

    def descriptors_used(self) -> int:
        """Return the number of open descriptors."""
        return self.open_descriptors

    def pid(self) -> int:
        """Return the pid of a process that does not exist."""
        return 4242

    def is_alive(self, pid: int) -> bool:
        """Return whether the pid is that of this process, the only one alive."""
        return pid == self.pid()

    def host(self) -> str:
        """Return the name of a machine that does not exist."""
        return "testhost"

    def now(self) -> float:
        """Return the current time, which stands still until a test moves it."""
        return self.seconds

    def booted_at(self) -> float:
        """Return the moment of the last power cut; 0 before the first."""
        return self.booted

    def monotonic(self) -> float:
        """Return 0: no time passes."""
        return 0.0

    def pause(self, seconds: float) -> None:
        """Advance the time instead of waiting."""
        self.seconds += seconds

    def random_digits(self) -> str:
        """Return 32 counted hex digits, unique on this disk and on its copies after a crash."""
        with self._mutex:
            self._next_digits += 1
            return f"{self._next_digits:032x}"

    # -- inside ------------------------------------------------------------------------

    def _sync(self, op: str, fd: int) -> None:
        fault = self.faults.meet(op)
        inode = self._at(fd).inode
        with self._mutex:
            if fault is not None:
                inode.fail_to_sync(fault.partial)
                raise fault.error()
            inode.sync()

    def _put(self, inode: Inode, offset: int, data: bytes | memoryview, fault: Fault | None) -> int:
        count = len(data) if self.write_bytes_max is None else min(len(data), self.write_bytes_max)
        if fault is not None:
            count = min(count, fault.partial)
        if self.capacity is not None:
            growth = offset + count - len(inode.seen)
            count -= max(0, min(count, growth - (self.capacity - self._used())))
        if count:
            inode.write(offset, bytes(data[:count]))
            self._touch(inode)
        if fault is not None:
            raise fault.error()
        if data and not count:
            raise _error(errors.ENOSPC)
        return count

    def _used(self) -> int:
        files = [target for target in self._names.seen.values() if isinstance(target, Inode)]
        return sum(len(inode.seen) for inode in files)

    def _touch(self, inode: Inode) -> None:
        self._ticks += 1
        inode.mtime = inode.ctime = int(self.seconds) * 1_000_000_000 + self._ticks

    def _new_inode(self, content: bytes) -> Inode:
        self._next_inode += 1
        return Inode(self._next_inode, content)

    def _open(self, descriptor: _Descriptor) -> int:
        with self._mutex:
            if len(self._descriptors) >= self.descriptors:
                raise _error(errors.EMFILE)
            self._next_fd += 1
            self._descriptors[self._next_fd] = descriptor
            return self._next_fd

    def _inode(self, path: Path) -> Inode:
        target = self._names.seen.get(path)
        if isinstance(target, Inode):
            return target
        raise _error(errors.EISDIR if target is True else errors.ENOENT)

    def _at(self, fd: int, *, writing: bool = False) -> _Descriptor:
        descriptor = self._descriptors.get(fd)
        if descriptor is None or (writing and not descriptor.writes):
            raise _error(errors.EBADF)
        return descriptor


def _stat_of(inode: Inode) -> FileStat:
    mode, size = stat.S_IFREG | 0o600, len(inode.seen)
    return _Stat(_DEVICE, inode.number, mode, size, inode.mtime, inode.ctime)


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
