"""Values of one session by key, bounded in number and bytes, the least recently used first to go.

Law: the newest value stays, however large it is. Every growth is told to the budget of all caches,
which may empty another cache for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Collection, Iterator
from typing import Generic, TypeVar

from sessiond.service.context.cache_budget import CacheBudget

K = TypeVar("K")
V = TypeVar("V")


class RecentlyUsed(ABC, Generic[K, V]):
    """Cache of one session, in a budget of all sessions."""

    def __init__(self, caches: CacheBudget | None, *, count_max: int, bytes_max: int) -> None:
        self._caches = caches or CacheBudget()
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._values: OrderedDict[K, V] = OrderedDict()

    @abstractmethod
    def bytes_of(self, values: Collection[V]) -> int:
        """Return the bytes that the values keep together."""

    def get(self, key: K) -> V | None:
        """Return the value if it is kept, and mark it as used now."""
        found = self._values.get(key)
        if found is not None:
            self._values.move_to_end(key)
            self._caches.touch(self)
        return found

    def latest(self) -> Iterator[V]:
        """Return the values, the most recently used one first."""
        return reversed(self._values.values())

    def put(self, key: K, value: V) -> None:
        """Keep a value; drop the least recently used ones over the bounds."""
        self.drop(key)
        self._values[key] = value
        while len(self._values) > 1 and self._is_over():
            self._values.popitem(last=False)
        self._caches.keeps(self, self.bytes_of(self._values.values()))

    def drop(self, key: K) -> None:
        """Drop the value of a key, if there is one."""
        self._values.pop(key, None)

    def clear(self) -> None:
        """Drop all values."""
        self._values.clear()

    def _is_over(self) -> bool:
        values = self._values.values()
        return len(values) > self._count_max or self.bytes_of(values) > self._bytes_max
