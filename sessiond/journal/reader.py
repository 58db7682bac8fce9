"""Stored lines by ordinal, from the page cache.

Law: reads share no position and no descriptor with the writer, so they run in
any thread beside an append, a failed append and its repair. Only `close` waits
for reads: a descriptor number closed during a read might soon belong to another file.

Law: no offset is trusted. A span of lines must begin right behind a newline and have newlines
exactly at the known ends of its lines. Otherwise a foreign writer has rewritten the file in place.
"""

from __future__ import annotations

import errno
import threading
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import sub
from pathlib import Path
from typing import Final

from sessiond.journal.checksums import Checksums
from sessiond.journal.disk.failures import storage_error, telling
from sessiond.journal.disk.files import Files
from sessiond.journal.splitter import LINE_HEAD_BYTES, long_line, split_whole, without_cr
from sessiond.limits import LINE_BYTES_MAX

_CHUNK_BYTES: Final = 1024 * 1024
# Offsets of one line: its begin and the begin of the next one.
_ONE_LINE: Final = 2


class LineReader:
    """The lines of one file. Line n begins at `ends[n]`; the next line will begin at `ends[-1]`."""

    def __init__(self, files: Files, fd: int, path: Path) -> None:
        self.path = path
        self.fd = fd
        self.is_writable = True
        """False if this user may only read the file, and it is open for reading only."""
        self.ends = array("q", [0])
        self.checksums = Checksums()
        self.lacks_newline = False
        """True if the last line of the file lacks the newline that `ends` counts."""
        self.is_doubted = False
        """True if a read found lines unlike those stored; the next look checks the file."""
        self._files = files
        self._last = b""
        self._guard = threading.Lock()
        self._reading = 0
        self._closed = False
        self._idle = threading.Event()

    def know(self, ends: array[int], checksums: Checksums) -> None:
        """Take all lines as known, without reading them."""
        self.ends, self.checksums = ends, checksums

    def forget(self) -> None:
        """Know no line any more."""
        self.know(array("q", [0]), Checksums())
        self.is_doubted = False

    @property
    def line_count(self) -> int:
        """Number of known lines."""
        return len(self.ends) - 1

    @property
    def file_end(self) -> int:
        """Offset where the last line ends in the file, without a missing newline."""
        return self.ends[-1] - self.lacks_newline

    def read(self, first: int, last: int) -> list[bytes]:
        """Return the lines `first` to `last`, both included.

        A LongLine stands for a line that is too long. Raises StorageError.
        """
        assert 0 <= first <= last, "a span of at least one line"
        try:
            return self.lines_at(self.ends[first : last + 2])
        except OSError as error:
            raise storage_error(error, "read", self.path) from error

    def lines_at(self, ends: array[int]) -> list[bytes]:
        """Return the lines between these offsets, which need not be known lines. Raises OSError."""
        size = ends[-1] - ends[0]
        if size > LINE_BYTES_MAX or (len(ends) == _ONE_LINE and size > _CHUNK_BYTES):
            return self._lines_apart(ends)
        return self._lines_together(ends)

    def _lines_together(self, ends: array[int]) -> list[bytes]:
        """Return the lines of a span, from one read. Raises OSError."""
        start = ends[0]
        data = self._pread_behind(start, ends[-1] - start)
        lines, rest = split_whole(data)
        if start:
            # The read includes the newline before the first line.
            lines.pop(0)
        if rest or [len(line) + 1 for line in lines] != list(map(sub, ends[1:], ends)):
            raise self._changed()
        return [without_cr(line) for line in lines] if b"\r" in data else lines

    def _lines_apart(self, ends: array[int]) -> list[bytes]:
        """Return the lines of a span that is too large for one read. Raises OSError."""
        lines: list[bytes] = []
        for at in range(len(ends) - 1):
            start, end = ends[at : at + 2]
            size = end - start - 1
            if size > LINE_BYTES_MAX:
                lines.append(self._long_line(start, end))
            elif size > _CHUNK_BYTES:
                lines.append(self._line_alone(start, end))
            else:
                lines += self._lines_together(ends[at : at + 2])
        return lines

    def _line_alone(self, start: int, end: int) -> bytes:
        """Return one line, without a second copy of its bytes. Raises OSError."""
        self._pread_behind(start, 0)
        line = self._stored(start, end - start - 1)
        if len(line) != end - start - 1 or b"\n" in line or self._stored(end - 1, 1) != b"\n":
            raise self._changed()
        return without_cr(line)

    def _long_line(self, start: int, end: int) -> bytes:
        """Return the stand-in for a line that is too long. Raises OSError."""
        head = self._pread_behind(start, LINE_HEAD_BYTES)[1 if start else 0 :]
        last = self._stored(end - 2, 2)
        if b"\n" in head or last[1:] != b"\n":
            raise self._changed()
        return long_line(head, last[:1], end - start - 1)

    def _pread_behind(self, start: int, count: int) -> bytes:
        """Return bytes, with the newline before them unless `start` is 0. Raises OSError."""
        if not start:
            return self._stored(0, count)
        data = self._stored(start - 1, count + 1)
        if not data.startswith(b"\n"):
            raise self._changed()
        return data

    def _changed(self, how: str = "changed") -> OSError:
        self.is_doubted = True
        return OSError(errno.ESTALE, f"it was {how} by another program")

    def is_rewritten(self) -> bool:
        """Return whether the bytes of the known lines have changed. Reads them all.

        Raises OSError.
        """
        self.is_doubted = not self.checksums.fits(self._stored)
        return self.is_doubted

    def piece_at(self, start: int, size: int) -> bytes:
        """Return the bytes of a line or half line; a LongLine if they are too many.

        Raises OSError.
        """
        if size > LINE_BYTES_MAX:
            return self._stand_in(start, size)
        return self._pread(start, size)

    def _stand_in(self, start: int, size: int) -> bytes:
        head = self._pread(start, LINE_HEAD_BYTES)
        return long_line(head, self._pread(start + size - 1, 1), size)

    def chunks(self, first: int, last: int) -> Iterator[bytes]:
        """Yield the stored bytes of the lines `first` to `last`, in pieces. Raises StorageError."""
        at, end = self.ends[first], self.ends[last + 1]
        seq = first
        while at < end:
            with telling("read", self.path):
                # The newline before a later piece was checked with the piece before it.
                chunk = self._some(at, min(_CHUNK_BYTES, end - at), behind=seq == first)
                seq = self._check_newlines(chunk, at, seq)
            at += len(chunk)
            yield chunk

    def _some(self, start: int, count: int, *, behind: bool) -> bytes:
        if behind and start:
            chunk = self._pread_behind(start, count)[1:]
        else:
            chunk = self._stored(start, count)
        if not chunk:
            raise self._changed("shortened")
        return chunk

    def _stored(self, start: int, count: int) -> bytes:
        """Return stored bytes, with the newline that the last line may lack. Raises OSError."""
        lacks_newline = self.lacks_newline
        data = self._pread(start, count)
        reaches_end = start + count == self.ends[-1] == start + len(data) + 1
        return data + b"\n" if lacks_newline and reaches_end else data

    def _check_newlines(self, chunk: bytes, at: int, seq: int) -> int:
        """Check the newlines of a piece that begins at `at` in line `seq`.

        Returns the line in which the piece ends. Raises OSError.
        """
        upto = bisect_right(self.ends, at + len(chunk)) - 1
        start = 0
        for end in self.ends[seq + 1 : upto + 1]:
            if chunk.find(b"\n", start) != end - at - 1:
                raise self._changed()
            start = end - at
        if chunk.find(b"\n", start) >= 0:
            raise self._changed()
        return upto

    def expect_last(self, line: bytes) -> None:
        """Remember the beginning of the last line, where its type and id stand."""
        self._last = bytes(line[:LINE_HEAD_BYTES])

    def expect_what_is_there(self) -> None:
        """Remember the beginning of the last line as the file has it now. Raises OSError."""
        self._last = self._last_line() if self.line_count else b""

    def has_last(self) -> bool:
        """Return whether the file still has the last line where it was stored. Raises OSError."""
        end = self.ends[-1]
        if not end:
            return True
        if not self._last_line().startswith(self._last):
            return False
        newline = self._pread(end - 1, 1)
        return newline == b"\n" or (self.lacks_newline and not newline)

    def _last_line(self) -> bytes:
        start, end = self.ends[-2:]
        count = min(end - start - 1, LINE_HEAD_BYTES)
        line = self._pread(start, count)
        if len(line) < count:
            raise OSError(errno.ESTALE, "it was shortened by another program")
        return line

    def bytes_at(self, start: int, count: int) -> bytes:
        """Return the bytes of the file at an offset, without a check of lines. Raises OSError."""
        return self._pread(start, count)

    def read_many(self, seqs: Sequence[int]) -> list[bytes]:
        """Return the lines at these ordinals, in this order; neighbours share a read.

        Raises StorageError.
        """
        lines: list[bytes] = []
        for first, last in _runs(seqs):
            lines += self.read(first, last)
        return lines

    def line_bytes(self, seq: int) -> int:
        """Return the stored size of one line, without its newline."""
        assert seq >= 0, "ordinals count from the header"
        return self.ends[seq + 1] - self.ends[seq] - 1

    def span_bytes(self, first: int, last: int) -> int:
        """Return the stored size of the lines `first` to `last`, newlines included."""
        assert first >= 0, "ordinals count from the header"
        return self.ends[last + 1] - self.ends[first]

    def checksum(self, seq: int) -> int:
        """Return the checksum of all bytes up to the end of a line.

        The checksum is that of the bytes as they were indexed or appended. Raises StorageError.
        """
        assert seq >= 0, "ordinals count from the header"
        try:
            return self.checksums.at(self.ends[seq + 1], self._stored)
        except OSError as error:
            raise storage_error(error, "read", self.path) from error

    @property
    def is_closed(self) -> bool:
        """True once `close` was called: reads fail from then on."""
        return self._closed

    def close(self) -> None:
        """Close the descriptor once no read uses it. Raises OSError."""
        with self._guard:
            if self._closed:
                return
            self._closed = True
            busy = self._reading > 0
        if busy:
            self._idle.wait()
        self._files.close(self.fd)

    def _pread(self, start: int, count: int) -> bytes:
        with self._guard:
            if self._closed:
                raise OSError(errno.EBADF, "the session was closed")
            self._reading += 1
        try:
            data = self._files.pread(self.fd, count, start)
            # One call returns less than asked above 2 GiB, or at the end of a file that shrank.
            while len(data) < count:
                more = self._files.pread(self.fd, count - len(data), start + len(data))
                if not more:
                    break
                data += more
            return data
        finally:
            with self._guard:
                self._reading -= 1
                if self._closed and not self._reading:
                    self._idle.set()


def _runs(seqs: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and last ordinal of each run of consecutive ordinals."""
    first = last = -1
    for seq in seqs:
        if seq == last + 1 and first >= 0:
            last = seq
            continue
        if first >= 0:
            yield first, last
        first = last = seq
    if first >= 0:
        yield first, last
