"""The condition of a change: the position of a head as the caller believes it."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from sessiond.errors import PlanStale, PreconditionFailed
from sessiond.limits import MISSED_IDS_MAX
from sessiond.session.append_request import Expected
from sessiond.session.draft import Draft


def require_expected(
    draft: Draft, head: str, expected: Expected | None, *, may_create: bool = False
) -> None:
    """Raise PreconditionFailed, with the data a caller needs to decide again, unless all fits.

    While a head that the call may create does not exist, its leaf is the place before the first
    entry. Raises HeadNotFound for any other head that does not exist.
    """
    if expected is None:
        return
    creates = may_create and draft.head(head) is None
    leaf = 0 if creates else draft.leaf(head)
    leaf_id = draft.id_of(leaf)
    same_leaf = expected.leaf_id is UNSET or expected.leaf_id == leaf_id
    same_seq = expected.seq is UNSET or expected.seq == draft.seq
    if same_leaf and same_seq:
        return
    raise PreconditionFailed(
        "the session changed since the caller read it; read the new entries, then decide again",
        expected=expected,
        actual={"leaf_id": leaf_id, "seq": draft.seq},
        missed=_missed(draft, leaf, expected),
    )


def require_may_append(
    draft: Draft, head: str, lease_id: str | None, expected: Expected | None
) -> None:
    """Raise if an entry with a text below the head would be refused, so that no text is written in vain."""
    draft.require_writable()
    draft.require_tree()
    draft.require_lease(head, lease_id)
    require_expected(draft, head, expected)
    draft.leaf(head)


def require_grown(draft: Draft, head: str, leaf_id: str | None) -> None:
    """Raise PlanStale unless the head has only gained entries since it was at `leaf_id`.

    Raises HeadNotFound.
    """
    leaf = at = draft.leaf(head)
    planned = 0 if leaf_id is None else draft.find(leaf_id)
    while at > planned:
        at = draft.parent(at)
    if at == planned and (planned > 0 or leaf_id is None):
        return
    raise PlanStale(
        "the head left the entries that the text is about; call again for a text of what is there now",
        plan_leaf_id=leaf_id,
        leaf_id=draft.id_of(leaf),
    )


def _missed(draft: Draft, leaf: int, expected: Expected) -> list[str]:
    """Return the entries that the head gained since the expected leaf, oldest first.

    They are the entries below the last common ancestor of the expected leaf and the head's leaf.
    """
    if isinstance(expected.leaf_id, UnsetType):
        return []
    theirs = draft.find(expected.leaf_id) if expected.leaf_id is not None else 0
    if expected.leaf_id is not None and not (theirs and draft.is_node(theirs)):
        return []
    ours: list[int] = []
    while leaf != theirs:
        if leaf > theirs:
            ours.append(leaf)
            leaf = draft.parent(leaf)
        else:
            theirs = draft.parent(theirs)
    ours.reverse()
    return [draft.id_of(seq) or "" for seq in ours[:MISSED_IDS_MAX]]


def has_left(draft: Draft, head: str, expected: Expected) -> bool:
    """Return whether the head moved since the caller looked; a label moves no head."""
    if not isinstance(expected.leaf_id, UnsetType):
        return expected.leaf_id != draft.id_of(draft.leaf(head))
    at = draft.head(head)
    return at is not None and not isinstance(expected.seq, UnsetType) and at.seq > expected.seq


def is_of_this_log(draft: Draft, expected: Expected) -> bool:
    """Return whether the line that the caller saw last exists in this log."""
    return isinstance(expected.seq, UnsetType) or expected.seq <= draft.seq
