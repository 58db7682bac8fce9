"""Stored lines by ordinal, from the page cache.

Law: reads share no position and no descriptor with the writer, so they run in
any thread beside an append, a failed append and its repair. Only `close` waits
for them: a descriptor that is closed under a read may be another file's by then.
"""

from __future__ import annotations

import errno
import threading
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from sessiond.journal.checksums import Checksums
from sessiond.journal.failures import storage_error, telling
from sessiond.journal.files import Files
from sessiond.journal.recovery import LINE_HEAD_BYTES, long_line, split_whole, without_cr
from sessiond.limits import LINE_BYTES_MAX

__all__ = ["LineReader"]

_CHUNK_BYTES: Final = 1024 * 1024


class LineReader:
    """The lines of one file. `ends[n]` is where line n begins, `ends[-1]` where the next will."""

    def __init__(self, files: Files, fd: int, path: Path) -> None:
        self.path = path
        self.fd = fd
        self.ends = array("q", [0])
        self.checksums = Checksums()
        self.lacks_newline = False
        """Whether the file ends with the last line, before the newline that `ends` counts."""
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
        start, end = ends[0], ends[-1]
        if end - start > LINE_BYTES_MAX:
            return self._lines_apart(ends)
        data = self._stored(start, end - start)
        lines, rest = split_whole(data)
        if rest or len(lines) != len(ends) - 1:
            raise OSError(errno.ESTALE, "it was changed by another program")
        return [without_cr(line) for line in lines] if b"\r" in data else lines

    def _lines_apart(self, ends: array[int]) -> list[bytes]:
        """The lines of a span that is not to be read as a whole."""
        lines: list[bytes] = []
        for at in range(len(ends) - 1):
            start, end = ends[at : at + 2]
            if end - start - 1 <= LINE_BYTES_MAX:
                data = self._stored(start, end - start)
                if not data.endswith(b"\n"):
                    raise OSError(errno.ESTALE, "it was changed by another program")
                lines.append(without_cr(data[:-1]))
            else:
                lines.append(self._stand_in(start, end - start - 1))
        return lines

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
        while at < end:
            with telling("read", self.path):
                chunk = self._some(at, min(_CHUNK_BYTES, end - at))
            at += len(chunk)
            yield chunk

    def _some(self, start: int, count: int) -> bytes:
        chunk = self._stored(start, count)
        if not chunk:
            raise OSError(errno.ESTALE, "it was shortened by another program")
        return chunk

    def _stored(self, start: int, count: int) -> bytes:
        """The stored bytes, with the newline that the last line may lack. Raises OSError."""
        lacks_newline = self.lacks_newline
        data = self._pread(start, count)
        reaches_end = start + count == self.ends[-1] == start + len(data) + 1
        return data + b"\n" if lacks_newline and reaches_end else data

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
