"""Bytes that the caches of all open sessions keep together.

Law: a cache reports its size whenever it grows. If all caches together keep too much, the least
recently used one is emptied completely. The cache in use stays: it has a bound of its own.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from sessiond.limits import CACHES_BYTES_MAX


class Cache(Protocol):
    """Store of values that can be computed again."""

    def clear(self) -> None:
        """Drop all values."""
        ...


class CacheBudget:
    """Caches of one daemon, the least recently used one first."""

    def __init__(self, bytes_max: int = CACHES_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.held_bytes = 0
        self._sizes: OrderedDict[Cache, int] = OrderedDict()

    def touch(self, cache: Cache) -> None:
        """Mark a cache as used now."""
        if cache in self._sizes:
            self._sizes.move_to_end(cache)

    def keeps(self, cache: Cache, size: int) -> None:
        """Mark a cache as used now, and record its size in bytes."""
        self.forget(cache)
        self._sizes[cache] = size
        self.held_bytes += size
        while self.held_bytes > self.bytes_max and len(self._sizes) > 1:
            oldest = next(iter(self._sizes))
            self.forget(oldest)
            oldest.clear()

    def forget(self, cache: Cache) -> None:
        """Remove a cache that keeps nothing any more."""
        self.held_bytes -= self._sizes.pop(cache, 0)
