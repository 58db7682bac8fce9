"""Lines of a file that sessiond only reads, as they come.

Law: the file is opened for reading only. Nothing locks, syncs, cuts or closes a line there. Half a
line at the end stays with its writer: it is a line once its newline is there.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

from sessiond.journal.checksums import Checksums, SavedSums
from sessiond.journal.disk.files import Files, FileStat, storable
from sessiond.journal.disk.lookup import is_same
from sessiond.journal.disk.regular import open_regular
from sessiond.journal.disk.settled import is_settled
from sessiond.journal.splitter import LinesOf, Splitter, without_end
from sessiond.journal.store import Replaced
from sessiond.limits import LINE_BYTES_MAX, SAME_TIME_SECONDS

_CHUNK_BYTES: Final = 256 * 1024
# The end of the known bytes, which shows that a program wrote the file anew.
_LAST_BYTES: Final = 256


class LineSource(Protocol):
    """The lines of a session at another program. One thread reads."""

    @property
    def path(self) -> Path:
        """Path of the file."""
        ...

    @property
    def inode(self) -> int:
        """Inode of the file, which a rename keeps."""
        ...

    @property
    def read_bytes(self) -> int:
        """Number of bytes that were read so far."""
        ...

    @property
    def held_bytes(self) -> int:
        """Number of bytes of the half line at the end of what was read."""
        ...

    @property
    def behind_bytes(self) -> int:
        """Number of bytes that the last read left to the next one."""
        ...

    def has_changed(self) -> bool:
        """Return whether the file may have changed since the last read. Waits for no disk."""
        ...

    def follow(self, path: Path) -> bool:
        """Read on at another path if that path has this file by now; return whether it has. Raises OSError."""
        ...

    def more(self) -> list[bytes]:
        """Return the next lines, a LongLine for one that is too long; none at the end of the file.

        Raises OSError, and Replaced if the known bytes are not there any more.
        """
        ...

    def behind(self) -> Iterable[bytes]:
        """Yield the lines that the next calls of `more` return, without an effect. Raises OSError."""
        ...

    def is_rewritten(self) -> bool:
        """Return whether the known bytes have changed. Reads them all. Raises OSError."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


class SourceMark(Struct, frozen=True):
    """The place up to which a file was read, with the evidence that the file still has the bytes before it.

    `held` counts the bytes of the half line at the end. `state` has the size and the times of the file; it is
    empty unless the file was read to its end and a later change would show in its times.
    """

    device: int
    inode: int
    read_bytes: int
    held: int
    last: bytes
    sums: SavedSums
    state: tuple[int, ...]


class FileSource:
    """The lines of one growing file."""

    def __init__(self, files: Files, path: Path, lines_of: LinesOf = Splitter) -> None:
        """Open a file. Raises OSError."""
        self.path = path
        self.behind_bytes = 0
        self._files = files
        self._fd = open_regular(files, path)
        self.line_ends = array("q")
        """Offsets in the file behind the lines that `more` returned last."""
        self._ends = array("q", [0])
        self._lines_of = lines_of
        self._splitter = lines_of(self._ends)
        self._at = 0
        self._sums = Checksums()
        self._last = b""
        self._known: tuple[int, int] | None = None
        try:
            self._identity = files.fstat(self._fd)
        except BaseException:
            self.close()
            raise

    @property
    def inode(self) -> int:
        """Inode of the file, which a rename keeps."""
        return self._identity.st_ino

    @property
    def size_bytes(self) -> int:
        """Size of the file when it was opened."""
        return self._identity.st_size

    @property
    def read_bytes(self) -> int:
        """Number of bytes that were read so far."""
        return self._at

    @property
    def held_bytes(self) -> int:
        """Number of bytes of the half line at the end of what was read."""
        return self._splitter.held

    def has_changed(self) -> bool:
        """Return whether the file has changed since the last read. Waits for no disk."""
        try:
            return _state(self._files.fstat(self._fd)) != self._known
        except OSError:
            return True

    def follow(self, path: Path) -> bool:
        """Read on at another path if that path has this file by now. Raises OSError."""
        if not self._is_named(path):
            return False
        self.path = path
        return True

    def _is_named(self, path: Path) -> bool:
        named, mine = self._files.stat(path), self._identity
        if (named.st_dev, named.st_ino) == (mine.st_dev, mine.st_ino):
            return True
        # FUSE may give the file another inode at each look.
        now, again = self._files.fstat(self._fd), self._files.stat(path)
        stays = (named.st_ino, now.st_ino) == (again.st_ino, mine.st_ino)
        return not stays and is_same(again, now)

    def more(self) -> list[bytes]:
        """Return the next lines; none at the end of the file. Raises OSError, Replaced."""
        # One look tells size and time: what comes behind the look is a change.
        found = self._files.fstat(self._fd)
        size = found.st_size
        self._require_known(found)
        lines: list[bytes] = []
        while not lines and self._at < size:
            chunk = self._files.pread(self._fd, min(_CHUNK_BYTES, size - self._at), self._at)
            if not chunk:
                break
            self._sums.add(chunk)
            self._last = (self._last + chunk[-_LAST_BYTES:])[-_LAST_BYTES:]
            self._at += len(chunk)
            lines = self._splitter.feed(chunk)
            self.line_ends = self._ends[1:]
            del self._ends[1:]
        self.behind_bytes = size - self._at
        if not self.behind_bytes:
            self._known = _state(found)
        return [without_end(line) for line in lines]

    def mark(self) -> SourceMark | None:
        """Return how far the file was read, for `resume`.

        Returns None in the middle of a line that is too long, and where the path has another file. Raises OSError.
        """
        held = self._splitter.held
        if held > LINE_BYTES_MAX or not self._is_named(self.path):
            return None
        found = self._files.fstat(self._fd)
        if not _is_settled(found, self._files.now()):
            self._files.pause(2 * SAME_TIME_SECONDS)
            found = self._files.fstat(self._fd)
        is_read = _state(found) == self._known and _is_settled(found, self._files.now())
        device, inode = storable(found.st_dev), storable(found.st_ino)
        state = _whole_state(found) if is_read else ()
        return SourceMark(device, inode, self._at, held, self._last, self._sums.saved(), state)

    def resume(self, mark: SourceMark) -> None:
        """Go on behind what an earlier source has read, before the first read.

        If the file has changed since, its known bytes are read, and no more. Raises ValueError unless it is
        the same file with the same known bytes, OSError.
        """
        found = self._files.fstat(self._fd)
        if (storable(found.st_dev), storable(found.st_ino)) != (mark.device, mark.inode):
            raise ValueError("it is another file")
        sums, at = Checksums.restored(mark.sums), mark.read_bytes
        is_unchanged = _whole_state(found) == mark.state
        if not is_unchanged and not sums.fits(self._stored):
            raise ValueError("its known bytes have changed")
        if self._stored(at - len(mark.last), len(mark.last)) != mark.last:
            raise ValueError("its known bytes end otherwise")
        self._splitter.feed(self._stored(at - mark.held, mark.held))
        self._at, self._last, self._sums = at, mark.last, sums
        self._known = _state(found)

    def behind(self) -> Iterator[bytes]:
        """Yield the lines behind those that were read. Raises OSError."""
        splitter, at = self._lines_of(array("q", [0])), self._at
        splitter.feed(self._splitter.rest())
        while chunk := self._files.pread(self._fd, _CHUNK_BYTES, at):
            at += len(chunk)
            yield from map(without_end, splitter.feed(chunk))

    def _require_known(self, found: FileStat) -> None:
        """Raise Replaced unless the path has this file, with the known bytes at their end."""
        if not self._is_named(self.path):
            raise Replaced("epoch")
        if found.st_size < self._at:
            raise Replaced("truncated")
        start = self._at - len(self._last)
        if self._files.pread(self._fd, len(self._last), start) != self._last:
            raise Replaced("epoch")
        # A write in place leaves the size as it is.
        is_touched = self._known is not None and self._known != _state(found)
        if is_touched and found.st_size == self._at and self.is_rewritten():
            raise Replaced("epoch")

    def is_rewritten(self) -> bool:
        """Return whether the known bytes have changed. Reads them all. Raises OSError."""
        return not self._sums.fits(self._stored)

    def _stored(self, start: int, count: int) -> bytes:
        return self._files.pread(self._fd, count, start)

    def close(self) -> None:
        """Close the file."""
        # A file that was only read loses nothing by a failed close, which closes too.
        with suppress(OSError):
            self._files.close(self._fd)


def _state(found: FileStat) -> tuple[int, int]:
    return found.st_size, found.st_mtime_ns


def _whole_state(found: FileStat) -> tuple[int, ...]:
    return found.st_size, storable(found.st_mtime_ns), storable(found.st_ctime_ns)


def _is_settled(found: FileStat, now: float) -> bool:
    """Return whether a later change of the file would show in its times."""
    return is_settled(found.st_mtime_ns, now) and is_settled(found.st_ctime_ns, now)
