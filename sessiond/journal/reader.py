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

from sessiond.journal.failures import storage_error
from sessiond.journal.files import Files
from sessiond.journal.recovery import split_whole, without_cr

__all__ = ["LineReader"]

# So much of a line tells it from another: its type and id come first.
_BEGINNING_BYTES: Final = 4096


class LineReader:
    """The lines of one file. `ends[n]` is where line n begins, `ends[-1]` where the next will."""

    def __init__(self, files: Files, fd: int, path: Path) -> None:
        self.path = path
        self.fd = fd
        self.ends = array("q", [0])
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

    def read(self, first: int, last: int) -> list[bytes]:
        """The lines `first` to `last`, both included."""
        assert 0 <= first <= last, "a span of at least one line"
        start, end = self.ends[first], self.ends[last + 1]
        try:
            data = self._pread(start, end - start)
        except OSError as error:
            raise storage_error(error, "read", self.path) from error
        lines, rest = split_whole(data)
        if rest or len(lines) != last + 1 - first:
            changed = OSError(errno.ESTALE, "it was changed by another program")
            raise storage_error(changed, "read", self.path)
        return [without_cr(line) for line in lines] if b"\r" in data else lines

    def expect_last(self, line: bytes) -> None:
        """Remember the last line as it was stored."""
        self._last = line[:_BEGINNING_BYTES]

    def expect_what_is_there(self) -> None:
        """The same where nobody knows better than the file. Raises OSError."""
        self._last = self._last_line() if self.line_count else b""

    def has_last(self) -> bool:
        """Whether the file still has the last line where it was stored. Raises OSError."""
        end = self.ends[-1]
        return not end or (
            self._last_line().startswith(self._last) and self._pread(end - 1, 1) == b"\n"
        )

    def _last_line(self) -> bytes:
        start, end = self.ends[-2:]
        count = min(end - start - 1, _BEGINNING_BYTES)
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
