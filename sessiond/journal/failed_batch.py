"""What is known of a batch that failed: which bytes behind the last line are its own.

Law: only what is provably ours is cut or made blank. A write that failed may have stored any
of its bytes, and others may have written before, between and behind them.
"""

from __future__ import annotations

from msgspec import Struct

from sessiond.journal.disk.descriptor import Piece
from sessiond.journal.interleaved import are_together
from sessiond.journal.reader import LineReader

__all__ = ["Refused"]


class Refused(Struct, frozen=True):
    """Its bytes, where its last write ended, and where each of its calls that ended well has written."""

    data: bytes = b""
    end: int | None = 0
    """None if nobody knows where the last write ended."""
    written: tuple[Piece, ...] = ()
    again: bool = False
    """It is stored again somewhere else, so nothing of it may stay."""

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """Where its bytes may be; what is there is held against them."""
        size = len(self.data)
        if self.written or self.end is None:
            return self.written
        return (Piece(self.end - size, 0, size),)

    @property
    def is_torn(self) -> bool:
        """Whether some of it came to the file, but not all in one place."""
        written = self.written
        return bool(written) and not (written[-1].last == len(self.data) and are_together(written))

    @property
    def lines(self) -> frozenset[bytes]:
        """What may be found of it."""
        return frozenset(self.data.split(b"\n"))

    def is_all_behind(self, reader: LineReader, size: int) -> bool:
        """Whether what lies behind the last line of a file of this size is of it, every byte."""
        end = reader.file_end
        if size <= end:
            return True
        if self.end is None:
            # Nobody knows where it was written, but all of it is there and nothing else.
            return size - end == len(self.data) and self.data == reader.bytes_at(end, size - end)
        if size != self.end or size - end > len(self.data):
            return False
        return self.data.startswith(reader.bytes_at(end, size - end))
