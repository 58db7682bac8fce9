"""Runs: a long sequence that is edited in the middle and copied cheaply.

Law: the items of a run never change. An edit puts new runs in the place of those it touches, so it
costs a run and a splice of the list of runs, and a copy is a list of runs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain
from typing import Final, Generic, NamedTuple, TypeVar

RUN_ITEMS_MAX: Final = 512
# A run below this part of the size is joined with the next, so that deletions leave no crumbs.
_SMALL_PART: Final = 4

T = TypeVar("T")


class Run(Generic[T]):
    """Consecutive items; `start` is the number of the first one."""

    __slots__ = ("items", "start")

    def __init__(self, items: Sequence[T], start: int) -> None:
        self.items = items
        self.start = start


class Exchange(NamedTuple, Generic[T]):
    """The runs that an edit removed, and those it put in their place."""

    gone: list[Run[T]]
    fresh: list[Run[T]]


class Runs(Generic[T]):
    """A sequence in runs of at most `items_max` items."""

    def __init__(self, items: Sequence[T] = (), *, items_max: int = RUN_ITEMS_MAX) -> None:
        self._items_max = items_max
        self._runs: list[Run[T]] = []
        self._starts: list[int] = []
        self._put(0, 0, items)

    def __len__(self) -> int:
        return self._starts[-1] + len(self._runs[-1].items) if self._runs else 0

    def __getitem__(self, number: int) -> T:
        if not 0 <= number < len(self):
            raise IndexError(number)
        run = self._runs[self._place(number)]
        return run.items[number - run.start]

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(run.items for run in self._runs)

    @property
    def runs(self) -> Iterable[Run[T]]:
        """All runs in their order."""
        return self._runs

    def copy(self) -> Runs[T]:
        """Return a copy that no edit of the original changes."""
        copied: Runs[T] = Runs(items_max=self._items_max)
        copied._runs = [Run(run.items, run.start) for run in self._runs]
        copied._starts = self._starts.copy()
        return copied

    def splice(self, first: int, last: int, items: Sequence[T]) -> Exchange[T]:
        """Put `items` in the place of those from `first` up to, without, `last`."""
        assert 0 <= first <= last <= len(self), "an edit outside of the sequence"
        if not self._runs:
            return self._put(0, 0, items)
        begin, end = self._place(first), self._place(max(first, last - 1)) + 1
        head = self._runs[begin].items[: first - self._starts[begin]]
        tail = self._runs[end - 1].items[last - self._starts[end - 1] :]
        if len(head) + len(items) + len(tail) < self._items_max // _SMALL_PART and end < len(
            self._runs
        ):
            tail = [*tail, *self._runs[end].items]
            end += 1
        return self._put(begin, end, [*head, *items, *tail])

    def _place(self, number: int) -> int:
        """Return the place of the run with an item; of the last run for a number behind it."""
        return bisect_right(self._starts, number) - 1

    def _put(self, begin: int, end: int, items: Sequence[T]) -> Exchange[T]:
        gone = self._runs[begin:end]
        count = -(-len(items) // self._items_max)
        size = -(-len(items) // count) if count else 1
        fresh = [Run(items[at : at + size], 0) for at in range(0, len(items), size)]
        self._runs[begin:end] = fresh
        start = self._starts[begin] if begin < len(self._starts) else 0
        moved = self._runs[begin:]
        sizes = (len(run.items) for run in moved)
        self._starts[begin:] = list(accumulate(sizes, initial=start))[:-1]
        for run, at in zip(moved, self._starts[begin:], strict=True):
            run.start = at
        return Exchange(gone, fresh)
