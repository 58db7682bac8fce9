"""Lines in a file that is read by one log, as a rule one without a name.

The system removes a file without a name with its last descriptor.

Law: `take` follows `put` and cannot fail: what a caller made durable elsewhere is never lost here.

The reader has no checksums of the lines: where a later change of lines must show, the log adds them.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from sessiond.journal.disk.files import Files
from sessiond.journal.profile.names import unfinished_name
from sessiond.journal.reader import LineReader
from sessiond.journal.splitter import ends_of, joined, stored_ends, stored_lines, whole_lines
from sessiond.limits import SPOOL_ROOM_BYTES

_NO_DESCRIPTOR: Final = -1


class Spool:
    """A growing file of lines for one process. One thread writes; any thread reads."""

    def __init__(self, files: Files, fd: int, path: Path) -> None:
        """Take a file, none of whose lines is taken yet. `path` is the name in errors."""
        self.files = files
        """Disk of the spool."""
        self.reader = LineReader(files, fd, path)
        """Reader of the lines that were taken."""
        self._room_end = 0
        """Offset up to which the file has bytes, lines or room for lines."""

    @classmethod
    def nameless(cls, files: Files, folder: Path | None, path: Path) -> Spool:
        """Return a spool on a new file without a name. Raises OSError.

        A start removes what an earlier daemon left in `folder`. Without a folder the lines are in
        memory, for a log that is read once.
        """
        disk = _InMemory() if folder is None else files
        return cls(disk, _descriptor(disk, folder), path)

    def found(self) -> Iterator[list[bytes]]:
        """Yield the whole lines that the file had before, each with its newline, for `take_stored`.

        Raises OSError.
        """
        yield from ()

    @property
    def stays(self) -> bool:
        """True if the file stays for a later spool."""
        return False

    def settle(self) -> None:
        """Make the lines that were taken durable for a later spool. Raises OSError."""

    def doubt(self) -> None:
        """Leave no line of the file to a later spool."""

    def put(self, lines: Sequence[bytes]) -> int:
        """Write lines behind the last one; they are no lines of the spool yet. Raises OSError.

        Returns their size, newlines included.
        """
        start = self.reader.ends[-1]
        return self.put_at(joined(lines), start) - start

    def has_room(self, size: int) -> bool:
        """Return whether the file has room for so many bytes behind the last line: no disk is too full for them."""
        return self.reader.ends[-1] + size <= self._room_end

    def keep_room(self, size: int) -> None:
        """Give the file room behind so many bytes that were put, if the disk has room."""
        end = self.reader.ends[-1] + size
        if self._room_end - end < SPOOL_ROOM_BYTES // 2:
            with suppress(OSError):
                self._room_end = self.put_at(bytes(SPOOL_ROOM_BYTES), end)

    def put_at(self, data: bytes, start: int) -> int:
        """Write whole lines somewhere behind the last one; return the offset behind them. Raises OSError."""
        at = 0
        while at < len(data):
            written = self.files.pwrite(self.reader.fd, memoryview(data)[at:], start + at)
            if not written:
                raise OSError(errno.ENOSPC, "the disk accepts no more bytes")
            at += written
        return start + at

    def lines_up_to(self, end: int) -> list[bytes]:
        """Return the lines between the last one and an offset, as the disk has them. Raises OSError."""
        start = self.reader.ends[-1]
        return whole_lines(self.reader.bytes_at(start, end - start))

    def take(self, lines: Sequence[bytes]) -> None:
        """Make the lines that were put last the last lines of the spool."""
        ends = self.reader.ends
        ends.extend(ends_of(lines, ends[-1]))

    def take_stored(self, lines: Sequence[bytes]) -> None:
        """Make lines of the file, each with its newline, the last lines of the spool."""
        ends = self.reader.ends
        ends.extend(stored_ends(lines, ends[-1]))

    def add(self, lines: Sequence[bytes]) -> None:
        """Write lines behind the last one, and take them. Raises OSError, and then takes none."""
        self.put_at(joined(lines), self.reader.ends[-1])
        self.take(lines)

    def add_piece(self, data: bytes) -> list[bytes]:
        """Add whole lines as `add` does, and return them, each with its newline."""
        self.put_at(data, self.reader.ends[-1])
        lines = stored_lines(data)
        self.take_stored(lines)
        return lines

    def close(self) -> None:
        """Leave the file, once no read runs."""
        # The file of a spool without a name ends with its descriptor, and a failed close closes too.
        with suppress(OSError):
            self.reader.close()


class _InMemory(Files):
    """A file without a name, in memory."""

    def __init__(self) -> None:
        self._data = bytearray()

    def pread(self, fd: int, count: int, offset: int) -> bytes:  # noqa: ARG002
        """Return bytes of the file."""
        return bytes(self._data[offset : offset + count])

    def pwrite(self, fd: int, data: bytes | memoryview, offset: int) -> int:  # noqa: ARG002
        """Put bytes into the file."""
        self._data[offset : offset + len(data)] = data
        return len(data)

    def close(self, fd: int) -> None:  # noqa: ARG002
        """Drop the file."""
        self._data.clear()


def _descriptor(files: Files, folder: Path | None) -> int:
    """Return the descriptor of a new file without a name. Raises OSError."""
    if folder is None:
        return _NO_DESCRIPTOR
    path = folder / unfinished_name(files.random_digits())
    fd = files.create(path)
    try:
        files.unlink(path)
    except BaseException:
        files.close(fd)
        raise
    return fd
