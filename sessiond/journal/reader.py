"""Stored lines by ordinal, from the page cache.

Law: reads share no position and no descriptor with the writer, so they run in
any thread beside an append, a failed append and its repair. Only `close` waits
for them: a descriptor that is closed under a read may be another file's by then.

Law: no offset is believed. What is read must begin right behind a newline and have its newlines
where the lines end; otherwise another program has written the file anew in place.
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
from sessiond.journal.recovery import LINE_HEAD_BYTES, long_line, split_whole, without_cr
from sessiond.limits import LINE_BYTES_MAX

__all__ = ["LineReader"]

_CHUNK_BYTES: Final = 1024 * 1024
_NEWLINE: Final = 10


class LineReader:
    """The lines of one file. `ends[n]` is where line n begins, `ends[-1]` where the next will."""

    def __init__(self, files: Files, fd: int, path: Path) -> None:
        self.path = path
        self.fd = fd
        self.ends = array("q", [0])
        self.checksums = Checksums()
        self.lacks_newline = False
        """Whether the file ends with the last line, before the newline that `ends` counts."""
        self.is_doubted = False
        """Whether a read found that the file has other lines; the next look makes sure."""
        self._files = files
        self._last = b""
        self._guard = threading.Lock()
        self._reading = 0
        self._closed = False
        self._idle = threading.Event()

    @property
    def line_count(self) -> int:
        """How many lines are known."""
        return len(self.ends) - 1

    @property
    def file_end(self) -> int:
        """Return how long a file is that ends with the last line."""
        return self.ends[-1] - self.lacks_newline

    def read(self, first: int, last: int) -> list[bytes]:
        """The lines `first` to `last`, both included; a LongLine for one that is too long."""
        assert 0 <= first <= last, "a span of at least one line"
        try:
            return self.lines_at(self.ends[first : last + 2])
        except OSError as error:
            raise storage_error(error, "read", self.path) from error

    def lines_at(self, ends: array[int]) -> list[bytes]:
        """The lines that begin and end at these offsets, known lines or not. Raises OSError."""
        if ends[-1] - ends[0] > LINE_BYTES_MAX:
            return self._lines_apart(ends)
        return self._lines_together(ends)

    def _lines_together(self, ends: array[int]) -> list[bytes]:
        """The lines of a span that is read as a whole. Raises OSError."""
        start = ends[0]
        data = self._pread_behind(start, ends[-1] - start)
        lines, rest = split_whole(data)
        if start:
            # The newline before the first line was read too.
            lines.pop(0)
        if rest or [len(line) + 1 for line in lines] != list(map(sub, ends[1:], ends)):
            raise self._changed()
        return [without_cr(line) for line in lines] if b"\r" in data else lines

    def _lines_apart(self, ends: array[int]) -> list[bytes]:
        """The lines of a span that is not to be read as a whole."""
        lines: list[bytes] = []
        for at in range(len(ends) - 1):
            start, end = ends[at : at + 2]
            if end - start - 1 <= LINE_BYTES_MAX:
                lines += self._lines_together(ends[at : at + 2])
            else:
                lines.append(self._long_line(start, end))
        return lines

    def _long_line(self, start: int, end: int) -> bytes:
        """The stand-in for a whole line. Raises OSError."""
        head = self._pread_behind(start, LINE_HEAD_BYTES)[1 if start else 0 :]
        last = self._stored(end - 2, 2)
        if b"\n" in head or last[1:] != b"\n":
            raise self._changed()
        return long_line(head, last[:1], end - start - 1)

    def _pread_behind(self, start: int, count: int) -> bytes:
        """So many bytes, and the newline before them unless the file begins there. Raises OSError."""
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
        """Whether the known lines have other bytes now. Reads them all. Raises OSError."""
        self.is_doubted = not self.checksums.fits(self._stored)
        return self.is_doubted

    def piece_at(self, start: int, size: int) -> bytes:
        """The bytes of one line or half a one; a LongLine for too many. Raises OSError."""
        if size > LINE_BYTES_MAX:
            return self._stand_in(start, size)
        return self._pread(start, size)

    def _stand_in(self, start: int, size: int) -> bytes:
        head = self._pread(start, LINE_HEAD_BYTES)
        return long_line(head, self._pread(start + size - 1, 1), size)

    def chunks(self, first: int, last: int) -> Iterator[bytes]:
        """The stored bytes of the lines `first` to `last`, in pieces. Raises StorageError."""
        at, end = self.ends[first], self.ends[last + 1]
        seq = first
        while at < end:
            with telling("read", self.path):
                # The newline before a later piece was looked at with the piece before.
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
        """The stored bytes, with the newline that the last line may lack. Raises OSError."""
        lacks_newline = self.lacks_newline
        data = self._pread(start, count)
        reaches_end = start + count == self.ends[-1] == start + len(data) + 1
        return data + b"\n" if lacks_newline and reaches_end else data

    def _check_newlines(self, chunk: bytes, at: int, seq: int) -> int:
        """Check a piece that begins at `at` in line `seq`; give the line behind it. Raises OSError."""
        upto = bisect_right(self.ends, at + len(chunk)) - 1
        if chunk.count(b"\n") != upto - seq or any(
            chunk[end - at - 1] != _NEWLINE for end in self.ends[seq + 1 : upto + 1]
        ):
            raise self._changed()
        return upto

    def expect_last(self, line: bytes) -> None:
        """Remember the last line as it was stored: its beginning, where its type and id stand."""
        self._last = bytes(line[:LINE_HEAD_BYTES])

    def expect_what_is_there(self) -> None:
        """The same where nobody knows better than the file. Raises OSError."""
        self._last = self._last_line() if self.line_count else b""

    def has_last(self) -> bool:
        """Whether the file still has the last line where it was stored. Raises OSError."""
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
        """What the file has there now, known lines or not. Raises OSError."""
        return self._pread(start, count)

    def read_many(self, seqs: Sequence[int]) -> list[bytes]:
        """The lines at these ordinals, in this order; neighbours in one read."""
        lines: list[bytes] = []
        for first, last in _runs(seqs):
            lines += self.read(first, last)
        return lines

    def line_bytes(self, seq: int) -> int:
        """The stored size of one line, without its newline."""
        assert seq >= 0, "ordinals count from the header"
        return self.ends[seq + 1] - self.ends[seq] - 1

    def span_bytes(self, first: int, last: int) -> int:
        """The stored size of the lines `first` to `last`, newlines included."""
        assert first >= 0, "ordinals count from the header"
        return self.ends[last + 1] - self.ends[first]

    def checksum(self, seq: int) -> int:
        """The checksum of everything up to the end of a line, as it was taken in."""
        assert seq >= 0, "ordinals count from the header"
        try:
            return self.checksums.at(self.ends[seq + 1], self._stored)
        except OSError as error:
            raise storage_error(error, "read", self.path) from error

    def close(self) -> None:
        """Let go of the descriptor once nobody reads from it."""
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
            # One call gives all but 2 GiB and more, or less at the end of a file that shrank.
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
    """Stretches of ordinals that follow each other."""
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
