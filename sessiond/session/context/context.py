"""Selection of the entries that the model sees at a leaf, from the index alone.

The last compaction on the path decides: it comes first, then the entries from its first kept one up
to the compaction, then everything after it. A first kept entry that is not on the path keeps
nothing. The walk goes no further up than the first kept entry, so its cost is that of the context,
not of the session.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

from msgspec import Struct

from sessiond.model.row import CONTEXT_KINDS, Kind
from sessiond.session.index import Session

BEGINS: Final = frozenset({int(Kind.COMPACTION), int(Kind.CONTEXT_EDIT)})
"""Kinds of entries at which a context is no mere extension of the context above."""

T = TypeVar("T")
_IN_CONTEXT: Final = bytes(kind in CONTEXT_KINDS for kind in range(256))
# Where each compaction leaves a notice at its place.
_WITH_NOTICES: Final = bytes(kind in {*CONTEXT_KINDS, Kind.COMPACTION} for kind in range(256))


class ContextPlan(Struct, frozen=True):
    """The entries of a context in order; `seqs[0]` is the compaction when there is one."""

    leaf: int
    seqs: list[int]
    compaction: int
    """Seq of the deciding compaction; 0 without one."""
    edited: bool
    """True if an entry edits other entries, so that an extension may change the beginning."""
    model: int
    """Seq of the entry that names the model; 0 for none."""
    thinking: int
    """Seq of the entry that sets the thinking level; 0 for none."""


def plan_context(session: Session, leaf: int) -> ContextPlan:
    """Return the context at `leaf`; 0 gives an empty context."""
    compaction = session.compaction_refs[leaf]
    kinds = session.kinds
    found = entries_after(session, compaction, leaf)
    found.reverse()
    if compaction:
        found.extend(_kept(session, compaction))
        found.append(compaction)
    found.reverse()
    return ContextPlan(
        leaf=leaf,
        seqs=found,
        compaction=compaction,
        edited=session.rules.joins or any(kinds[seq] == Kind.CONTEXT_EDIT for seq in found),
        model=session.model_refs[leaf],
        thinking=session.thinking_refs[leaf],
    )


def entries_after(session: Session, above: int, leaf: int) -> list[int]:
    """Return the context's entries on the path from below `above` down to `leaf`, in order.

    `above` is the compaction of the context, or an entry below that compaction.
    """
    return [] if is_closed(session, leaf) else _entries_between(session, above, leaf)


def is_closed(session: Session, leaf: int) -> bool:
    """Return whether the compaction above an entry is all of the context, so that no entry adds to it."""
    compaction = session.compaction_refs[leaf]
    return (
        bool(compaction) and session.rules.strict_kept and not session.kept_from.get(compaction, 0)
    )


def context_end(session: Session, leaf: int) -> int:
    """Return the last entry that the context at `leaf` depends on."""
    return session.compaction_refs[leaf] if is_closed(session, leaf) else leaf


def _entries_between(session: Session, above: int, leaf: int) -> list[int]:
    parents, kinds = session.parents, session.kinds
    said = _WITH_NOTICES if session.rules.notices else _IN_CONTEXT
    found: list[int] = []
    at = leaf
    while at > above:
        if said[kinds[at]]:
            found.append(at)
        at = parents[at]
    found.reverse()
    return found


def _kept(session: Session, compaction: int) -> list[int]:
    """Return the entries before a pointer compaction that it keeps, newest first."""
    first = session.kept_from[compaction]
    if not first:
        return []
    return _entries_between(session, first - 1, session.parents[compaction])[::-1]


def messages_seen(session: Session, leaf: int) -> int:
    """Return how many messages the model sees at `leaf`; a replacement or summary counts as one."""
    counts, parents = session.message_counts, session.parents
    compaction = session.compaction_refs[leaf]
    if not compaction:
        return counts[leaf]
    if is_closed(session, leaf):
        return 1
    first = session.kept_from.get(compaction, 0)
    kept = counts[parents[compaction]] - counts[parents[first]] if first else 0
    return 1 + kept + counts[leaf] - counts[compaction]


def shared_prefix(ours: Sequence[T], theirs: Sequence[T]) -> int:
    """Return how many items two lists have in common from the start."""
    count = 0
    for one, other in zip(ours, theirs, strict=False):
        if one != other:
            break
        count += 1
    return count
