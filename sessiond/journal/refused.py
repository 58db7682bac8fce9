"""What is known of a batch that failed: which bytes behind the last line are its own.

Law: only what is provably ours is cut or made blank. A write that failed may have stored any
of its bytes, and others may have written before, between and behind them.
"""

from __future__ import annotations

from msgspec import Struct

from sessiond.journal.reader import LineReader

__all__ = ["Refused"]


class Refused(Struct, frozen=True):
    """Its bytes, where its write ended, and where they are to be blank."""

    data: bytes = b""
    end: int = 0
    blank_from: int | None = None

    @property
    def start(self) -> int:
        """Where its write began, if all of it was written."""
        return self.end - len(self.data)

    @property
    def lines(self) -> frozenset[bytes]:
        """What may be found of it."""
        return frozenset(self.data.split(b"\n"))

    def is_all_behind(self, reader: LineReader, size: int) -> bool:
        """Whether what lies behind the last line of a file of this size is of it, every byte."""
        end = reader.ends[-1]
        if size <= end:
            return True
        if size != self.end or size - end > len(self.data):
            return False
        return self.data.startswith(reader.bytes_at(end, size - end))

    def is_among_others(self, reader: LineReader) -> bool:
        """Whether all of it is in the file, before or behind what others wrote."""
        data, start = self.data, self.start
        return start >= reader.ends[-1] and reader.bytes_at(start, len(data)) == data
