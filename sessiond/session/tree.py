"""The shape of a session: children, pre-order, what is on the active path.

Children are an index of their own because most sessions are never asked for
them: it is brought up to date when a question comes, at a cost of the lines
added since the last one. Everything is iterative; a chain of a million entries
is a loop, not a stack.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Iterator

from msgspec import Struct

from sessiond.session.index import Session

__all__ = ["ChildIndex", "TreeRow", "preorder"]


class ChildIndex:
    """First child, next sibling and number of children of every node, roots under 0.

    Readers in worker threads share it, so bringing it up to date takes a lock;
    what is in the arrays never changes meaning afterwards.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._first = array("i", (0,))
        self._last = array("i", (0,))
        self._next = array("i", (0,))
        self._count = array("i", (0,))

    @property
    def seq(self) -> int:
        """The last line the index knows."""
        return len(self._next) - 1

    def extend(self, session: Session, seq: int) -> None:
        """Take in the session's lines up to `seq`."""
        with self._lock:
            for new in range(len(self._next), seq + 1):
                for column in (self._first, self._last, self._next, self._count):
                    column.append(0)
                if session.is_node(new):
                    self._adopt(session.parents[new], new)

    def _adopt(self, parent: int, child: int) -> None:
        if self._last[parent]:
            self._next[self._last[parent]] = child
        else:
            self._first[parent] = child
        self._last[parent] = child
        self._count[parent] += 1

    def count(self, seq: int, *, upto: int) -> int:
        """How many children there were when the last line was `upto`; of 0, how many roots.

        Other readers may have taken in later lines meanwhile: those are not counted.
        """
        with self._lock:
            if self._last[seq] <= upto:
                return self._count[seq]
        return len(self.children(seq, upto=upto))

    def children(self, seq: int, *, upto: int) -> list[int]:
        """The children in file order, as they were when the last line was `upto`."""
        found: list[int] = []
        child = self._first[seq]
        while child and child <= upto:
            found.append(child)
            child = self._next[child]
        return found


class TreeRow(Struct, frozen=True):
    """One node in pre-order. `forked`: it has siblings; `last`: none of them follows it."""

    seq: int
    depth: int
    children: int
    on_active_path: bool
    forked: bool
    last: bool


def preorder(
    session: Session,
    index: ChildIndex,
    *,
    seq: int,
    leaf: int,
    when: Callable[[int], str],
) -> Iterator[TreeRow]:
    """Every node as of line `seq`: the active subtree first among siblings, then by (time, seq).

    `when(seq)` gives an entry's time; it is asked only where siblings need an order.
    """
    active = set(session.up(leaf))

    def ordered(parent: int) -> list[int]:
        found = index.children(parent, upto=seq)
        if len(found) > 1:
            found.sort(key=lambda child: (child not in active, when(child), child))
        return found

    stack: list[tuple[int, int, bool, bool]] = []

    def await_turn(family: list[int], depth: int) -> None:
        """The first of them comes next, and what is below it before its sibling."""
        forked = len(family) > 1
        stack.extend((child, depth, forked, child == family[-1]) for child in reversed(family))

    await_turn(ordered(0), 0)
    while stack:
        at, depth, forked, last = stack.pop()
        below = ordered(at)
        await_turn(below, depth + 1)
        yield TreeRow(at, depth, len(below), at in active, forked, last)
