"""Order in which people read a session: the active path first, then each branch.

A branch is a chain of entries: it begins at a root, or below a fork that another chain goes through,
and takes the first child wherever the tree forks again. Pure.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from sessiond.session.index import Session
from sessiond.session.tree import ChildIndex, preorder


class Branch(Struct):
    """A chain of entries, root first. `fork` is the entry above, 0 for a root."""

    number: int
    fork: int
    above: int
    """Number of the branch that the fork is in; of the branch itself at a root."""
    depth: int
    seqs: list[int]
    active: bool = False
    """True if the branch begins the path to the head's leaf or lies on it."""


def path_alone(session: Session, leaf: int) -> list[Branch]:
    """Return the path to a leaf as the only branch."""
    seqs = session.path(leaf)
    return [Branch(0, 0, 0, 0, seqs, active=True)] if seqs else []


def branches(session: Session, upto: int, leaf: int, when: Callable[[int], str]) -> list[Branch]:
    """Return all branches as of line `upto`, the path to `leaf` first."""
    children = ChildIndex()
    children.extend(session, upto)
    found: list[Branch] = []
    branch_of: dict[int, Branch] = {}
    for row in preorder(session, children, seq=upto, leaf=leaf, when=when):
        fork = session.parents[row.seq]
        above = branch_of.get(fork)
        if above is not None and above.seqs[-1] == fork:
            above.seqs.append(row.seq)
            branch_of[row.seq] = above
            continue
        number = len(found)
        branch = Branch(
            number,
            fork,
            number if above is None else above.number,
            0 if above is None else above.depth + 1,
            [row.seq],
            active=row.on_active_path,
        )
        found.append(branch)
        branch_of[row.seq] = branch
    return found
