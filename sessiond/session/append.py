"""The append of one call: the order of its checks, exactly once, all or nothing.

The checks come in this order: stored already, writable, lease, `expected`, parent and content. Any
other order would give a wrong answer to a retry.
"""

from __future__ import annotations

import itertools

from msgspec import UNSET, UnsetType

from sessiond.errors import EntryInvalid, HeadNotFound, PreconditionFailed
from sessiond.model.entries import Compaction, Label, SessionInfoEntry
from sessiond.model.ids import derive_entry_id
from sessiond.session.append_request import AppendRequest
from sessiond.session.draft import Draft
from sessiond.session.preconditions import has_left, is_of_this_log, require_expected
from sessiond.session.receipts import Receipt, StoredEntry
from sessiond.session.retries import earlier_receipt, stored_already


def append(draft: Draft, request: AppendRequest) -> Receipt:
    """Stage the entries of one call, or return the receipt of an earlier call that stored them.

    A refused call leaves the draft unchanged.
    """
    entries = request.entries
    if request.idempotency_key is not None:
        for index, entry in enumerate(entries):
            entry.id = derive_entry_id(request.session_id, request.idempotency_key, index)
    if len(entries) > 1 or entries[0].id is not UNSET:
        known = stored_already(draft, request)
        if known:
            return earlier_receipt(draft, request, known)
        _require_long_ids(draft, request)
    draft.require_writable()
    if draft.leases is not None or request.lease_id is not None:
        _require_lease(draft, request)
    head, parent = _place(draft, request)
    if len(entries) == 1:
        return _stage_one(draft, request, head, parent)
    with draft.all_or_nothing():
        return _stage_all(draft, request, head, parent)


def _require_long_ids(draft: Draft, request: AppendRequest) -> None:
    """Raise EntryInvalid for an id that is too short for the program whose file this is."""
    least = draft.session.rules.id_chars_min
    if least == 1:
        return
    for index, entry in enumerate(request.entries):
        if isinstance(entry.id, str) and len(entry.id) < least:
            place = request.path if len(request.entries) == 1 else f"entries[{index}]"
            raise EntryInvalid(
                f"an id in a file of this program has at least {least} characters: send a longer"
                " one, or none",
                path="id",
            ).inside(place)


def _require_lease(draft: Draft, request: AppendRequest) -> None:
    """Raise LeaseHeld or LeaseLost if a lease forbids the call to move its head.

    A call that moves no head needs no lease.
    """
    if request.lease_id is not None or not _moves_no_head(request):
        draft.require_lease(request.head, request.lease_id)


def _moves_no_head(request: AppendRequest) -> bool:
    """Return whether the call holds only labels and facts, which move no head."""
    return all(isinstance(entry, (Label, SessionInfoEntry)) for entry in request.entries)


def _place(draft: Draft, request: AppendRequest) -> tuple[str, int | None]:
    """Return the head and parent to append at; a parent of None is the head's leaf.

    Raises PreconditionFailed, EntryNotFound, HeadNotFound.
    """
    head = request.head
    if request.expected is not None:
        try:
            creates = not isinstance(request.parent_id, UnsetType)
            require_expected(draft, head, request.expected, may_create=creates)
        except PreconditionFailed:
            can_branch = request.branch_on_conflict and draft.session.rules.named_heads
            if (
                draft.head(head) is None
                or not can_branch
                or not is_of_this_log(draft, request.expected)
            ):
                raise
            if has_left(draft, head, request.expected) and not _moves_no_head(request):
                parent = _branch_point(draft, request)
                if parent is None:
                    raise
                return _new_head(draft, head), parent
    if isinstance(request.parent_id, UnsetType):
        return head, None
    if draft.head(head) is None and _moves_no_head(request):
        raise HeadNotFound("labels and facts create no head; name a head that exists", head=head)
    if request.parent_id is None:
        return head, 0
    return head, draft.parent_named(request.parent_id)


def _branch_point(draft: Draft, request: AppendRequest) -> int | None:
    """Return the entry below which a conflict branches; None if the call names no such entry.

    Raises EntryNotFound for a `parent_id` that is no entry.
    """
    assert request.expected is not None, "only an expectation can fail"
    if isinstance(request.parent_id, str):
        return draft.parent_named(request.parent_id)
    target = request.expected.leaf_id if request.parent_id is UNSET else request.parent_id
    if isinstance(target, UnsetType):
        return None
    parent = draft.find(target) if target is not None else 0
    return parent if target is None or (parent and draft.is_node(parent)) else None


def _new_head(draft: Draft, head: str) -> str:
    """Return an unused name for the head that a conflict branches to."""
    names = (f"{head[:56]}-{number}" for number in itertools.count(2))
    return next(name for name in names if draft.head(name) is None and not draft.is_leased(name))


def _stage_one(draft: Draft, request: AppendRequest, head: str, parent: int | None) -> Receipt:
    """Stage the entry of a single-entry call, which is the usual call and needs no atom."""
    (entry,) = request.entries
    if isinstance(entry, Compaction):
        _require_guard(entry, request)
    seq = draft.stage(entry, head=head, parent=parent, path=request.path)
    return Receipt([_stored(draft, seq)], _leaf_id(draft, head), seq, head, False)  # noqa: FBT003


def _stage_all(draft: Draft, request: AppendRequest, head: str, parent: int | None) -> Receipt:
    stored: list[StoredEntry] = []
    count = len(request.entries)
    given = {entry.id for entry in request.entries}
    for index, entry in enumerate(request.entries):
        if entry.id is UNSET:
            # The new id must also differ from those that later entries of the call bring along.
            draft.give_id(entry, given)
        if draft.session.rules.atoms:
            entry.atom = (index + 1, count)
            if index == 0:
                entry.atom_of = request.session_id
        if isinstance(entry, Compaction):
            _require_guard(entry, request)
        seq = draft.stage(entry, head=head, parent=parent, path=f"entries[{index}]")
        if parent is not None and draft.is_node(seq):
            # This entry made or moved the head; the entries after this one are chained below.
            parent = None
        stored.append(_stored(draft, seq))
    return Receipt(stored, _leaf_id(draft, head), draft.seq, head, duplicate=False)


def _stored(draft: Draft, seq: int) -> StoredEntry:
    return StoredEntry(*draft.receipt_of(seq))


def _leaf_id(draft: Draft, head: str) -> str | None:
    at = draft.head(head)
    return draft.id_of(at.leaf) if at else None


def _require_guard(entry: Compaction, request: AppendRequest) -> None:
    """Raise EntryInvalid for replacement messages without `expected.leaf_id`.

    Such messages replace a context that their writer saw, so the call names the leaf of that
    context.
    """
    guarded = request.expected is not None and request.expected.leaf_id is not UNSET
    if entry.messages is not UNSET and not guarded:
        raise EntryInvalid(
            "a compaction with messages needs expected.leaf_id", path="expected.leaf_id"
        )
