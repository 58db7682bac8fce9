"""Sessions as trees by descent (fork, merge, rebase), in pre-order.

Pure. A session whose parent is missing is a root. Of a circle the oldest session is a
root. So every session is in the forest exactly once, also if headers contradict each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from sessiond.catalog.rows import Relative


class ForestRow(Struct, frozen=True):
    """A session and its place. `forked`: the session has siblings; `last`: no sibling follows."""

    session: Relative
    parent_id: str | None
    depth: int
    children: int
    forked: bool
    last: bool
    is_orphan: bool


def plant(sessions: Sequence[Relative]) -> Iterator[ForestRow]:
    """Yield every session once, parents first, siblings in the given order."""
    parents = _parents(sessions)
    children: dict[str | None, list[Relative]] = {}
    for session in sessions:
        children.setdefault(parents[session.session_id], []).append(session)
    stack: list[tuple[Relative, int, bool, bool]] = []

    def await_turn(family: list[Relative], depth: int) -> None:
        """Put the siblings on the stack so that the first one, with all below it, comes next."""
        forked = len(family) > 1
        stack.extend((one, depth, forked, one is family[-1]) for one in reversed(family))

    await_turn(children.get(None, []), 0)
    while stack:
        session, depth, forked, last = stack.pop()
        below = children.get(session.session_id, [])
        await_turn(below, depth + 1)
        parent = parents[session.session_id]
        says = session.parent_id is not None or session.parent_path is not None
        yield ForestRow(
            session,
            parent,
            depth=depth,
            children=len(below),
            forked=forked,
            last=last,
            is_orphan=parent is None and says,
        )


def tree_of(session_id: str, sessions: Sequence[Relative]) -> list[Relative]:
    """Return the sessions of the tree that contains `session_id`; none if no tree does."""
    found: list[Relative] = []
    holds_it = False
    for row in plant(sessions):
        if row.depth == 0:
            if holds_it:
                break
            found = []
        found.append(row.session)
        holds_it = holds_it or row.session.session_id == session_id
    return found if holds_it else []


def _parents(sessions: Sequence[Relative]) -> dict[str, str | None]:
    """Return the parent of each session; a circle is cut at its first session."""
    ids = {session.session_id for session in sessions}
    by_path = {session.path: session.session_id for session in sessions if session.path}
    parents = {session.session_id: _parent(session, ids, by_path) for session in sessions}
    settled: set[str] = set()
    for session in sessions:
        way: dict[str, None] = {}
        at: str | None = session.session_id
        while at is not None and at not in settled and at not in way:
            way[at] = None
            at = parents[at]
        if at is not None and at in way:
            # `sessions` begins with the oldest, but the walk may have entered the circle anywhere.
            circle = list(way)[list(way).index(at) :]
            oldest = next(one.session_id for one in sessions if one.session_id in circle)
            parents[oldest] = None
        settled.update(way)
    return parents


def _parent(session: Relative, ids: set[str], by_path: dict[str, str]) -> str | None:
    if session.parent_id in ids:
        return session.parent_id
    return by_path.get(session.parent_path) if session.parent_path else None
