"""The descriptor that appends to a session file.

Law: an fsync that failed is never tried again on the same descriptor. The
kernel may have marked the lost pages as clean, and the second call would report
success. A caller that gets an OSError from here calls `reopen` first.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from sessiond.journal.disk.files import Files, FileStat
from sessiond.journal.disk.lookup import is_same


def close_quietly(files: Files, fd: int) -> None:
    """Close a descriptor, ignoring errors: a failed close closes too, and the data is synced."""
    with suppress(OSError):
        files.close(fd)


class WrittenPiece(Struct, frozen=True):
    """The bytes that one call wrote: `data[first:last]`, at offset `start` of the file."""

    start: int
    first: int
    last: int


def write_all(files: Files, fd: int, data: bytes) -> None:
    """Write every byte. Raises OSError."""
    for _piece in _written(files, fd, data):
        pass


def _written(files: Files, fd: int, data: bytes) -> Iterator[tuple[int, int]]:
    """Write every byte; after each call yield the range of `data` that the call wrote."""
    at = 0
    while at < len(data):
        count = files.write(fd, memoryview(data)[at:] if at else data)
        if count == 0:
            raise OSError(errno.ENOSPC, "the disk accepts no more bytes")
        yield at, at + count
        at += count


def _numbers(found: FileStat) -> tuple[int, int]:
    return found.st_dev, found.st_ino


class Descriptor:
    """The one descriptor that writes at the end of a file and syncs it; counts writes and syncs."""

    def __init__(self, files: Files, known: Callable[[], FileStat]) -> None:
        """Take the function that looks at the file by another descriptor. Raises OSError."""
        self._files = files
        self._known = known
        self._identity = _numbers(known())
        self._fd: int | None = None
        self.pieces: list[WrittenPiece] = []
        """The places of the last write's bytes; foreign bytes may lie between them."""
        self.changed_at = 0
        """The time of the file's last known change, in nanoseconds."""
        self.was_changed = False
        """True if a foreign writer's change has been seen since the file was opened."""
        self.writes = self.written_bytes = self.syncs = 0
        self.sync_ms_max = 0.0

    @property
    def identity(self) -> tuple[int, int]:
        """Device and inode of the file."""
        return self._identity

    @property
    def inode(self) -> int:
        """Inode of the file; 0 if the file may have another one at each look, or after the next mount."""
        return self._identity[1]

    def belong_to(self, identity: tuple[int, int], path: Path) -> None:
        """Open the file that has taken the place of this one. Raises OSError."""
        self.close()
        self._identity = identity if self.inode else (identity[0], 0)
        self.reopen(path)

    def reopen(self, path: Path, *, is_writable: bool = True) -> None:
        """Open a new descriptor of the known file; for reading only, if the file may not be written to.

        Raises OSError, ESTALE if the path has another file.
        """
        self.close()
        fd = (self._files.open_append if is_writable else self._files.open_read)(path)
        try:
            self._check_identity(fd)
        except BaseException:
            self._files.close(fd)
            raise
        self._fd = fd

    def _check_identity(self, fd: int) -> None:
        found = self._files.fstat(fd)
        if _numbers(found) == self._identity:
            return
        if not is_same(found, self._known()):
            raise OSError(errno.ESTALE, "another file has its name now")
        self.forget_inode()

    def forget_inode(self) -> None:
        """Know the file by its size and times from now on."""
        self._identity = self._identity[0], 0

    def write(self, data: bytes) -> None:
        """Append all of `data` with one call; only a short write leads to another.

        Raises OSError.
        """
        self.pieces = []
        fd = self._open_fd()
        for first, last in _written(self._files, fd, data):
            self.writes += 1
            self.pieces.append(WrittenPiece(self._files.position(fd) - (last - first), first, last))
        self.written_bytes += len(data)

    def sync(self) -> None:
        """Wait until the written bytes are on disk. Raises OSError."""
        started = self._files.monotonic()
        self._files.fdatasync(self._open_fd())
        self.syncs += 1
        self.sync_ms_max = max(self.sync_ms_max, (self._files.monotonic() - started) * 1000)

    def note_change(self) -> None:
        """Record that the latest change of the file was a write of this process."""
        try:
            self.changed_at = self._files.fstat(self._open_fd()).st_mtime_ns
        except OSError:
            # 0 makes the next look check the file more closely.
            self.changed_at = 0

    def position(self) -> int:
        """Return the offset where the last write ended, foreign bytes included; 0 when closed."""
        return self._files.position(self._fd) if self._fd is not None else 0

    def truncate(self, size: int) -> None:
        """Cut the file to `size`; `sync` makes the cut durable. Raises OSError."""
        self._files.truncate(self._open_fd(), size)

    def size(self) -> int:
        """Return the size of the file, foreign bytes included. Raises OSError."""
        return self._files.fstat(self._open_fd()).st_size

    def close(self) -> None:
        """Close the descriptor."""
        fd, self._fd = self._fd, None
        if fd is not None:
            # A failed close closes the descriptor too, and the data was synced before.
            with suppress(OSError):
                self._files.close(fd)

    def _open_fd(self) -> int:
        if self._fd is None:
            raise OSError(errno.EBADF, "it is not open for writing")
        return self._fd
