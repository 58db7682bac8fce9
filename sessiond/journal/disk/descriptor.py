"""The descriptor that appends.

Law: an fsync that failed is never tried again on the same descriptor. The
kernel may have marked the lost pages as clean, and the second call would say
that all is well. So whoever sees an OSError from here calls `reopen` first.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from sessiond.journal.disk.files import Files, FileStat

__all__ = ["Descriptor", "Piece", "close_quietly", "write_all"]


def close_quietly(files: Files, fd: int) -> None:
    """Close a descriptor. A close that fails has closed all the same; what counts was synced before."""
    with suppress(OSError):
        files.close(fd)


class Piece(NamedTuple):
    """What one call wrote: from `first` to `last` of the bytes, at `start` in the file."""

    start: int
    first: int
    last: int


def write_all(files: Files, fd: int, data: bytes) -> None:
    """Write every byte."""
    for _piece in _written(files, fd, data):
        pass


def _written(files: Files, fd: int, data: bytes) -> Iterator[tuple[int, int]]:
    """The same; gives from where to where after each call."""
    at = 0
    while at < len(data):
        count = files.write(fd, memoryview(data)[at:] if at else data)
        if count == 0:
            raise OSError(errno.ENOSPC, "the disk takes no byte")
        yield at, at + count
        at += count


class Descriptor:
    """Writes whole pieces at the end of one file, and syncs them. Counts both."""

    def __init__(self, files: Files, identity: FileStat) -> None:
        self._files = files
        self._identity = (identity.st_dev, identity.st_ino)
        self._fd: int | None = None
        self.pieces: list[Piece] = []
        """Where the bytes of the last write came to be; others may have written between them."""
        self.changed_at = 0
        """The time of the file's last change that is known of, in nanoseconds."""
        self.was_changed = False
        """Whether somebody else's change was seen in that time."""
        self.writes = self.written_bytes = self.syncs = 0
        self.sync_ms_max = 0.0

    @property
    def identity(self) -> tuple[int, int]:
        """Device and inode of the file."""
        return self._identity

    @property
    def inode(self) -> int:
        """Which file it is, among those of its device."""
        return self._identity[1]

    def belong_to(self, identity: tuple[int, int], path: Path) -> None:
        """A descriptor of the file that has taken this one's place."""
        self.close()
        self._identity = identity
        self.reopen(path)

    def reopen(self, path: Path) -> None:
        """A fresh descriptor, of the file that this one began with or of none."""
        self.close()
        fd = self._files.open_append(path)
        try:
            self._check_identity(fd)
        except BaseException:
            self._files.close(fd)
            raise
        self._fd = fd

    def _check_identity(self, fd: int) -> None:
        found = self._files.fstat(fd)
        if (found.st_dev, found.st_ino) != self._identity:
            raise OSError(errno.ESTALE, "another file has its name now")

    def write(self, data: bytes) -> None:
        """Append all of `data`: one call, and more only after a short one."""
        self.pieces = []
        fd = self._open_fd()
        for first, last in _written(self._files, fd, data):
            self.writes += 1
            self.pieces.append(Piece(self._files.position(fd) - (last - first), first, last))
        self.written_bytes += len(data)

    def sync(self) -> None:
        """Wait until what was written is on disk."""
        started = self._files.monotonic()
        self._files.fdatasync(self._open_fd())
        self.syncs += 1
        self.sync_ms_max = max(self.sync_ms_max, (self._files.monotonic() - started) * 1000)

    def note_change(self) -> None:
        """What changed the file just now was ours."""
        try:
            self.changed_at = self._files.fstat(self._open_fd()).st_mtime_ns
        except OSError:
            # It is looked at more closely before the next write.
            self.changed_at = 0

    def position(self) -> int:
        """Where the last write ended: behind all that was in the file before it. 0 when closed."""
        return self._files.position(self._fd) if self._fd is not None else 0

    def truncate(self, size: int) -> None:
        """Cut the file; `sync` makes that last."""
        self._files.truncate(self._open_fd(), size)

    def size(self) -> int:
        """How long the file is, whoever wrote it."""
        return self._files.fstat(self._open_fd()).st_size

    def close(self) -> None:
        """Let go of the descriptor."""
        fd, self._fd = self._fd, None
        if fd is not None:
            # A close that fails has closed all the same; what counts was synced before.
            with suppress(OSError):
                self._files.close(fd)

    def _open_fd(self) -> int:
        if self._fd is None:
            raise OSError(errno.EBADF, "it is not open for writing")
        return self._fd
