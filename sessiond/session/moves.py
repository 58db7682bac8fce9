"""Moves of heads and labels of entries: branch, reset, rewind, label.

In native files a move is a `leaf` record and a label is a record. A dialect without such records
stores a move as a node below the target; every program that reads the file continues from that
node.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from sessiond import typed
from sessiond.errors import EntryInvalid, HeadNotFound
from sessiond.limits import REWOUND_IDS_MAX
from sessiond.model.entries import BranchSummary, Custom, Label, Leaf
from sessiond.model.ids import MAIN
from sessiond.model.row import MoveForm
from sessiond.session.append_request import Expected
from sessiond.session.draft import Draft
from sessiond.session.preconditions import require_expected

LEAF_CUSTOM_TYPE: Final = "sessiond.leaf"


class Condition(Struct, frozen=True):
    """Conditions of a head's move: its expected position, and the lease that allows the move."""

    expected: Expected | None = None
    lease_id: str | None = None


ALWAYS: Final = Condition()


class _MoveNode(Struct):
    type: str
    custom_type: str = ""
    summary: str = ""


class Moved(Struct, frozen=True):
    """A head's position after a move."""

    leaf_id: str | None
    head: str
    seq: int


class Rewound(Moved, frozen=True):
    """A head's position after a rewind, and the entries that left the head's path, oldest first.

    Beyond REWOUND_IDS_MAX only the oldest are listed; `rewound_count` counts every one.
    """

    rewound: list[str]
    rewound_count: int


class Labelled(Struct, frozen=True):
    """The line that set or cleared a label."""

    seq: int


class BranchRequest(Struct):
    """A branch call."""

    entry_id: str | None
    head: str = MAIN
    summary: str = ""
    details: Raw | UnsetType = UNSET
    condition: Condition = ALWAYS


def branch(draft: Draft, request: BranchRequest) -> Moved:
    """Put a head at an entry, with a summary of the branch it leaves if one is given."""
    draft.require_writable()
    condition = request.condition
    draft.require_lease(request.head, condition.lease_id)
    require_expected(draft, request.head, condition.expected, may_create=True)
    target = draft.node(request.entry_id) if request.entry_id is not None else 0
    if not request.summary:
        if request.details is not UNSET:
            raise EntryInvalid("details belong to a summary; send a summary too", path="details")
        return _move(draft, request.head, target, "branch")
    left = draft.head(request.head) or draft.head(MAIN)
    entry = BranchSummary(
        summary=request.summary,
        from_id=draft.id_of(left.leaf) if left else None,
        details=request.details,
    )
    with draft.all_or_nothing():
        draft.stage(entry, head=request.head, parent=target)
    return _moved(draft, request.head)


def drop(draft: Draft, head: str, condition: Condition = ALWAYS) -> Moved:
    """Forget a named head; its entries stay in the session."""
    _require(draft, head, condition)
    leaf = draft.leaf(head)
    if head == MAIN:
        raise HeadNotFound("main cannot be dropped", head=head)
    with draft.all_or_nothing():
        draft.stage(Leaf(target_id=draft.id_of(leaf), reason="drop"), head=head)
    return Moved(draft.id_of(leaf), head, draft.seq)


def reset(draft: Draft, head: str, condition: Condition = ALWAYS) -> Moved:
    """Put a head before the first entry; the next append starts a second trunk."""
    _require(draft, head, condition)
    draft.leaf(head)
    return _move(draft, head, 0, "reset")


def rewind(draft: Draft, to: str | None, head: str, condition: Condition = ALWAYS) -> Rewound:
    """Put a head back to an entry of its own path, or before the first.

    The entries that followed stay in the session.
    """
    _require(draft, head, condition)
    target = draft.node(to, "to") if to is not None else 0
    at = draft.leaf(head)
    left: list[int] = []
    while at > target:
        left.append(at)
        at = draft.parent(at)
    if at != target:
        raise EntryInvalid(
            "the entry is not on the path of the head; use session/branch to go to another one",
            entry_id=to,
            path="to",
        )
    left.reverse()
    moved = _move(draft, head, target, "rewind")
    return Rewound(
        moved.leaf_id,
        moved.head,
        moved.seq,
        rewound=[draft.id_of(seq) or "" for seq in left[:REWOUND_IDS_MAX]],
        rewound_count=len(left),
    )


def label(draft: Draft, entry_id: str, text: str | None) -> Labelled:
    """Label an entry, or clear its label with None or ""."""
    draft.require_writable()
    draft.node(entry_id)
    with draft.all_or_nothing():
        seq = draft.stage(Label(target_id=entry_id, label=text or None), head=MAIN)
    return Labelled(seq)


def _require(draft: Draft, head: str, condition: Condition) -> None:
    """Raise unless the head may be moved.

    Raises SessionArchived, SessionCorrupt, LeaseHeld, LeaseLost, PreconditionFailed, in this order.
    """
    draft.require_writable()
    draft.require_lease(head, condition.lease_id)
    require_expected(draft, head, condition.expected)


def _move(
    draft: Draft, head: str, target: int, reason: Literal["branch", "reset", "rewind"]
) -> Moved:
    at = draft.head(head)
    left = at.leaf if at else 0
    with draft.all_or_nothing():
        match draft.session.rules.moves:
            case "leaf":
                record = Leaf(target_id=draft.id_of(target), reason=reason)
                draft.stage(record, head=head, parent=left)
            case "custom":
                data = Raw(b'{"reason":"%s"}' % reason.encode())
                node = Custom(custom_type=LEAF_CUSTOM_TYPE, data=data)
                draft.stage(node, head=head, parent=target)
            case "branch_summary":
                empty = BranchSummary(summary="", from_id=draft.id_of(left))
                draft.stage(empty, head=head, parent=target)
    return _moved(draft, head)


def is_move(wire: bytes, form: MoveForm) -> bool:
    """Return whether an entry, as clients see it, is the node of a move without a summary."""
    try:
        found = typed.decode(wire, _MoveNode)
    except msgspec.DecodeError:
        return False
    if form == "custom":
        return found.type == "custom" and found.custom_type == LEAF_CUSTOM_TYPE
    return found.type == form == "branch_summary" and not found.summary


def _moved(draft: Draft, head: str) -> Moved:
    return Moved(draft.id_of(draft.leaf(head)), head, draft.seq)
