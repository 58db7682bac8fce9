"""A failed batch: which bytes behind the last line may be left of the batch.

Law: only bytes that are provably ours are cut or blanked. A failed write may have stored any of
its bytes, and foreign writers may have written before, between and behind those.
"""

from __future__ import annotations

from msgspec import Struct

from sessiond.journal.disk.descriptor import WrittenPiece
from sessiond.journal.interleaved import are_together
from sessiond.journal.reader import LineReader


class FailedBatch(Struct, frozen=True):
    """A failed batch: its bytes, the end of its last write, the pieces of its successful calls."""

    data: bytes = b""
    end: int | None = 0
    """Offset where the last write ended; None if unknown."""
    written: tuple[WrittenPiece, ...] = ()
    again: bool = False
    """True if the batch is stored again behind foreign lines: none of these bytes may stay."""

    @property
    def pieces(self) -> tuple[WrittenPiece, ...]:
        """Places where bytes of the batch may be; callers compare the file's bytes there."""
        size = len(self.data)
        if self.written or self.end is None:
            return self.written
        return (WrittenPiece(self.end - size, 0, size),)

    @property
    def is_torn(self) -> bool:
        """True if the batch was stored in part, or with foreign bytes between its pieces."""
        written = self.written
        return bool(written) and not (written[-1].last == len(self.data) and are_together(written))

    @property
    def lines(self) -> frozenset[bytes]:
        """Lines of the batch, any of which the file may have."""
        return frozenset(self.data.split(b"\n"))

    def is_all_behind(self, reader: LineReader, size: int) -> bool:
        """Return whether all bytes behind the last line of a file of this size are the batch's."""
        end = reader.file_end
        if size <= end:
            return True
        if self.end is None:
            # The place of the write is unknown, so only the whole batch and nothing else counts.
            return size - end == len(self.data) and self.data == reader.bytes_at(end, size - end)
        if size != self.end or size - end > len(self.data):
            return False
        return self.data.startswith(reader.bytes_at(end, size - end))
