"""Shape of a session: children, pre-order, and the active path.

Children are an index of their own because most sessions are never asked for them. A question brings
the index up to date, at the cost of the lines added since the last question. Everything is
iterative; a chain of a million entries is a loop, not a stack.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Iterator

from msgspec import Struct

from sessiond.session.index import Session


class ChildIndex:
    """First child, next sibling and number of children of every node, roots under 0.

    Readers in worker threads share the index, so an update takes a lock; values in the arrays never
    change meaning afterwards.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._first = array("i", (0,))
        self._last = array("i", (0,))
        self._next = array("i", (0,))
        self._count = array("i", (0,))

    @property
    def seq(self) -> int:
        """Last line that the index covers."""
        return len(self._next) - 1

    def extend(self, session: Session, seq: int) -> None:
        """Add the session's lines up to `seq` to the index."""
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
        """Return the number of children as of line `upto`; for 0, the number of roots.

        Later lines that another reader added to the index meanwhile are not counted.
        """
        with self._lock:
            if self._last[seq] <= upto:
                return self._count[seq]
        return len(self.children(seq, upto=upto))

    def children(self, seq: int, *, upto: int) -> list[int]:
        """Return the children in file order, as of line `upto`."""
        found: list[int] = []
        child = self._first[seq]
        while child and child <= upto:
            found.append(child)
            child = self._next[child]
        return found


class TreeRow(Struct, frozen=True):
    """A node in pre-order. `forked`: the node has siblings; `last`: no sibling follows."""

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
    """Yield every node as of line `seq` in pre-order.

    Among siblings the one on the active path comes first, the rest by (time, seq). `when(seq)`
    gives an entry's time; it is called only where siblings need an order.
    """
    active = set(session.up(leaf))

    def ordered(parent: int) -> list[int]:
        found = index.children(parent, upto=seq)
        if len(found) > 1:
            found.sort(key=lambda child: (child not in active, when(child), child))
        return found

    stack: list[tuple[int, int, bool, bool]] = []

    def await_turn(family: list[int], depth: int) -> None:
        """Put the siblings on the stack so that the first one, with all below it, comes next."""
        forked = len(family) > 1
        stack.extend((child, depth, forked, child == family[-1]) for child in reversed(family))

    await_turn(ordered(0), 0)
    while stack:
        at, depth, forked, last = stack.pop()
        below = ordered(at)
        await_turn(below, depth + 1)
        yield TreeRow(at, depth, len(below), at in active, forked, last)


def count_leaves(session: Session, upto: int) -> int:
    """Return how many nodes up to a line have no child up to that line."""
    nodes = [seq for seq in range(1, upto + 1) if session.is_node(seq)]
    above = {session.parents[seq] for seq in nodes}
    return sum(seq not in above for seq in nodes)
