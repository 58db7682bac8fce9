"""What the caches of all open sessions keep together, in bytes.

Law: a cache says how much it keeps whenever it keeps more; when all of them keep too much, the
one that was used longest ago is emptied, whole. The one in use stays: it has a bound of its own.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from sessiond.limits import CACHES_BYTES_MAX

__all__ = ["Cache", "Caches"]


class Cache(Protocol):
    """Something that can be made again."""

    def clear(self) -> None:
        """Keep nothing."""
        ...


class Caches:
    """The caches of one daemon, the one that was used longest ago first."""

    def __init__(self, bytes_max: int = CACHES_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.held_bytes = 0
        self._sizes: OrderedDict[Cache, int] = OrderedDict()

    def touch(self, cache: Cache) -> None:
        """It was used just now."""
        if cache in self._sizes:
            self._sizes.move_to_end(cache)

    def keeps(self, cache: Cache, size: int) -> None:
        """It was used just now, and keeps so much."""
        self.forget(cache)
        self._sizes[cache] = size
        self.held_bytes += size
        while self.held_bytes > self.bytes_max and len(self._sizes) > 1:
            oldest = next(iter(self._sizes))
            self.forget(oldest)
            oldest.clear()

    def forget(self, cache: Cache) -> None:
        """It keeps nothing any more."""
        self.held_bytes -= self._sizes.pop(cache, 0)
