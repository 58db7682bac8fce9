"""From bytes to lines: what of a file can be trusted to be whole.

Law: a line ends with b"\\n" and nothing else; what follows the last one is the
tail, whole or torn, for the caller to judge. Pure: no file is touched here.
`str.splitlines` and text mode are wrong for this: U+2028 is legal inside JSON.

    {"type":"session_header",...}\\n      line 0
    {"type":"message",...}\\r\\n          line 1; the CR of a Windows editor is not part of it
    {"type":"mess                        the tail: a crash, or a write that goes on
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from itertools import accumulate

__all__ = ["Splitter", "Visit", "ends_of", "split_whole", "without_cr"]

Visit = Callable[[int, bytes], None]


class Splitter:
    """Cuts chunks into lines, linear in their bytes however long a line is.

    `ends` gets the offset behind each line's newline, `visit` its ordinal and bytes.
    """

    __slots__ = ("_at", "_ends", "_pieces", "_saw_cr", "_visit")

    def __init__(self, ends: array[int], visit: Visit) -> None:
        self._at = 0
        self._ends = ends
        self._visit = visit
        self._pieces: list[bytes] = []
        self._saw_cr = False

    def feed(self, chunk: bytes) -> None:
        """Visit the lines that this chunk completes."""
        # A copy of each line as it is looked at: half the time of bytes.split, whose many
        # lines are out of the processor's cache again before anybody reads them.
        at, ends, find, visit = self._at, self._ends, chunk.find, self._visit
        # Most files have no CR at all, and need no look at every line.
        saw_cr = self._saw_cr = self._saw_cr or b"\r" in chunk
        seq = len(ends) - 1
        start = 0
        end = find(b"\n")
        while end >= 0:
            line = chunk[start:end]
            if self._pieces:
                line = b"".join([*self._pieces, line])
                self._pieces.clear()
            start = end + 1
            ends.append(at + start)
            visit(seq, without_cr(line) if saw_cr else line)
            seq += 1
            end = find(b"\n", start)
        if start < len(chunk):
            self._pieces.append(chunk[start:])
        self._at = at + len(chunk)

    def rest(self) -> bytes:
        """What no newline has ended yet."""
        return b"".join(self._pieces)


def without_cr(line: bytes) -> bytes:
    """The line without the one CR that a CRLF file leaves."""
    return line[:-1] if line.endswith(b"\r") else line


def split_whole(data: bytes) -> tuple[list[bytes], bytes]:
    """The whole lines at the start of `data`, a trailing CR still in place, and the rest."""
    lines = data.split(b"\n")
    rest = lines.pop()
    return lines, rest


def ends_of(lines: Iterable[bytes], start: int) -> list[int]:
    """Where each line ends, newline included, when the first begins at `start`."""
    ends = accumulate((len(line) + 1 for line in lines), initial=start)
    next(ends)
    return list(ends)
