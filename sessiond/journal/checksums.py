"""The checksum of a file from its beginning to wherever a line ends, as its owner knows the file.

Law: bytes are summed up when they are taken in, at an opening or with an append, and never read
again for a checksum that is kept, so that a later change of the file in place shows. Between two known places the bytes
are read, at most about STEP_BYTES of them. Memory grows by twelve bytes per STEP_BYTES.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_right
from collections.abc import Callable
from typing import Final
from zlib import crc32

__all__ = ["Checksums"]

STEP_BYTES: Final = 1024 * 1024
# So many commits may pass while the checksum of one is asked for in another thread.
_RECENT_MAX: Final = 256


class Checksums:
    """CRC-32 at known offsets of one file. May be used from several threads."""

    def __init__(self) -> None:
        self._offsets: array[int] = array("q", (0,))
        self._sums: array[int] = array("I", (0,))
        # Where the last commits ended.
        self._recent: dict[int, int] = {}
        self._end: int = 0
        self._sum: int = 0
        self._guard = threading.Lock()

    def add(self, data: bytes) -> None:
        """Take in the bytes that follow."""
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
        """Forget what lies behind an offset. `read` gives so many bytes at an offset."""
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
        """Whether all known bytes are what `read` gives, as in `at`. Reads them all."""
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
        """Return the checksum of everything before an offset. `read` as in `cut`."""
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
        """The last known place up to an offset."""
        known = self._recent.get(end)
        if known is not None:
            return end, known
        recent = max((at for at in self._recent if at < end), default=0)
        index = bisect_right(self._offsets, end) - 1
        if self._offsets[index] >= recent:
            return self._offsets[index], self._sums[index]
        return recent, self._recent[recent]
