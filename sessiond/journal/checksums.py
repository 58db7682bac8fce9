"""Checksums of a file from its beginning to the end of any line, as the owner knows the file.

Law: bytes enter the checksum when an opening indexes them or an append stores them. A kept checksum
never reads them again, so a later change of the file in place shows. For an offset between two kept
checksums the bytes are read from the earlier one on, about STEP_BYTES at most. Memory grows by
twelve bytes per STEP_BYTES.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_right
from collections.abc import Callable
from typing import Final, Self
from zlib import crc32

from msgspec import Struct

STEP_BYTES: Final = 1024 * 1024
# Number of commits that may pass while another thread asks for the checksum of an earlier commit.
_RECENT_MAX: Final = 256


class SavedSums(Struct, frozen=True):
    """Checksums as plain values: offsets, the checksums at them, and those of the whole."""

    offsets: bytes
    sums: bytes
    end: int
    sum: int


class Checksums:
    """CRC-32 at known offsets of one file. Safe in any thread."""

    def __init__(self) -> None:
        self._offsets: array[int] = array("q", (0,))
        self._sums: array[int] = array("I", (0,))
        # The ends of the latest commits, with their checksums.
        self._recent: dict[int, int] = {}
        self._end: int = 0
        self._sum: int = 0
        self._guard = threading.Lock()

    @classmethod
    def restored(cls, saved: SavedSums) -> Self:
        """Return the checksums that were saved."""
        made = cls()
        made._offsets, made._sums = array("q"), array("I")
        made._offsets.frombytes(saved.offsets)
        made._sums.frombytes(saved.sums)
        made._end, made._sum = saved.end, saved.sum
        made._recent[saved.end] = saved.sum
        return made

    def saved(self) -> SavedSums:
        """Return the checksums as plain values."""
        with self._guard:
            return SavedSums(self._offsets.tobytes(), self._sums.tobytes(), self._end, self._sum)

    def add(self, data: bytes) -> None:
        """Add the next bytes of the file."""
        with self._guard:
            self._sum = crc32(data, self._sum)
            self._end += len(data)
            self._recent[self._end] = self._sum
            if len(self._recent) > _RECENT_MAX:
                self._settle_oldest()

    def _settle_oldest(self) -> None:
        oldest = next(iter(self._recent))
        value = self._recent.pop(oldest)
        if oldest - self._offsets[-1] >= STEP_BYTES:
            self._offsets.append(oldest)
            self._sums.append(value)

    def cut(self, end: int, read: Callable[[int, int], bytes]) -> None:
        """Forget the checksums behind an offset.

        `read(offset, count)` returns bytes of the file.
        """
        if end == self._end:
            return
        value = self.at(end, read)
        with self._guard:
            self._recent = {at: one for at, one in self._recent.items() if at < end}
            keep = bisect_right(self._offsets, end)
            del self._offsets[keep:]
            del self._sums[keep:]
            self._end, self._sum = end, value
            self._recent[end] = value

    def fits(self, read: Callable[[int, int], bytes]) -> bool:
        """Return whether the file still holds all known bytes.

        Reads them all with `read`, as in `cut`.
        """
        with self._guard:
            end, known = self._end, self._sum
        at = value = 0
        while at < end:
            data = read(at, min(STEP_BYTES, end - at))
            if not data:
                return False
            value = crc32(data, value)
            at += len(data)
        return value == known

    def at(self, end: int, read: Callable[[int, int], bytes]) -> int:
        """Return the checksum of all bytes before an offset. `read` as in `cut`."""
        with self._guard:
            start, value = self._before(end)
        while start < end:
            data = read(start, min(STEP_BYTES, end - start))
            if not data:
                break
            value = crc32(data, value)
            start += len(data)
        return value

    def _before(self, end: int) -> tuple[int, int]:
        """Return the last offset up to `end` whose checksum is known, and that checksum."""
        known = self._recent.get(end)
        if known is not None:
            return end, known
        recent = max((at for at in self._recent if at < end), default=0)
        index = bisect_right(self._offsets, end) - 1
        if self._offsets[index] >= recent:
            return self._offsets[index], self._sums[index]
        return recent, self._recent[recent]
