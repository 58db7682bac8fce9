"""The append of one call: the order of its checks, exactly once, all or nothing.

The checks come in this order: stored already, writable, lease, `expected`, parent and content. Any
other order would give a wrong answer to a retry.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from sessiond.errors import EntryInvalid, HeadNotFound, IdempotencyConflict, PreconditionFailed
from sessiond.limits import MISSED_IDS_MAX
from sessiond.model.entries import Compaction, Label, SessionInfoEntry
from sessiond.model.ids import MAIN, EntryId, derive_entry_id
from sessiond.session.draft import Draft, Staged

__all__ = [
    "AppendRequest",
    "Expected",
    "Receipt",
    "StoredEntry",
    "append",
    "receipts_of_run",
    "require_expected",
]


class Expected(Struct, frozen=True, forbid_unknown_fields=True):
    """The head's position as the caller believes it; a field left out is not compared."""

    leaf_id: EntryId | UnsetType | None = UNSET
    seq: int | UnsetType = UNSET


class StoredEntry(Struct, frozen=True):
    """A stored entry as the receipt of an append reports it."""

    id: str
    parent_id: str | None
    seq: int
    timestamp: str


class Receipt(Struct):
    """The answer to an append: the stored entries, the head's new position, the durability.

    `duplicate`: an earlier call stored these entries, and the receipt names them as stored then.
    `durability` is known once the batch is stored.
    """

    entries: list[StoredEntry]
    leaf_id: str | None
    seq: int
    head: str
    duplicate: bool
    durability: Literal["disk", "os", "memory"] = "disk"


def receipts_of_run(draft: Draft, offsets: Sequence[int], durability: str) -> list[bytes]:
    """Return the receipts, as JSON, of rows that were staged in runs, given where they are.

    Each row is one call's only entry, and the leaf of its head.
    """
    texts: list[bytes] = []
    first, rows = draft.base_seq + 1, draft.rows
    durable = _encode(durability)
    last_id, own = None, b"null"
    last_head, head = None, b""
    # The lines of a draft that were given no time have the draft's.
    now = _encode(draft.now)
    for offset in offsets:
        row, seq = rows[offset], first + offset
        above = own if row.parent_id == last_id else _encode(row.parent_id)
        last_id, own = row.id, _encode(row.id)
        if row.head is not last_head:
            last_head, head = row.head, _encode(row.head)
        texts.append(_RECEIPT % (own, above, seq, now, own, seq, head, durable))
    return texts


class AppendRequest(Struct):
    """An append call with typed entries."""

    session_id: str
    entries: Sequence[Staged]
    head: str = MAIN
    parent_id: str | UnsetType | None = UNSET
    expected: Expected | None = None
    lease_id: str | None = None
    branch_on_conflict: bool = False
    idempotency_key: str | None = None
    path: str = ""
    """Parameter that holds a lone entry; "" if the entry's fields are parameters themselves."""


_encode: Final = msgspec.json.Encoder().encode
_RECEIPT: Final = (
    b'{"entries":[{"id":%b,"parent_id":%b,"seq":%d,"timestamp":%b}],"leaf_id":%b,"seq":%d'
    b',"head":%b,"duplicate":false,"durability":%b}'
)


class _Envelope(Struct):
    id: str
    parent_id: str | None = None
    timestamp: str | float = ""
    head: str | UnsetType = UNSET
    atom: tuple[int, int] | UnsetType = UNSET
    atom_of: str | UnsetType = UNSET


def append(draft: Draft, request: AppendRequest) -> Receipt:
    """Stage the entries of one call, or return the receipt of an earlier call that stored them.

    A refused call leaves the draft unchanged.
    """
    entries = request.entries
    if request.idempotency_key is not None:
        for index, entry in enumerate(entries):
            entry.id = derive_entry_id(request.session_id, request.idempotency_key, index)
    if len(entries) > 1 or entries[0].id is not UNSET:
        known = _known(draft, request)
        if known:
            return _duplicate(draft, request, known)
    draft.require_writable()
    if draft.leases is not None or request.lease_id is not None:
        _require_lease(draft, request)
    head, parent = _place(draft, request)
    if len(entries) == 1:
        return _stage_one(draft, request, head, parent)
    with draft.all_or_nothing():
        return _stage_all(draft, request, head, parent)


def _known(draft: Draft, request: AppendRequest) -> list[int]:
    """Return the seqs of the entries whose ids are stored or staged already; [] for a new call."""
    ids = [entry.id for entry in request.entries if not isinstance(entry.id, UnsetType)]
    if len(ids) > 1 and len(set(ids)) < len(ids):
        raise EntryInvalid(
            "two entries of the call have one id; give each entry an id of its own", path="entries"
        )
    known = [seq for seq in map(draft.find, ids) if seq]
    if known and len(known) < len(request.entries):
        raise IdempotencyConflict(
            "some entries of the call are stored already, the rest are not; a retry sends the entries of the first call",
            entry_id=draft.id_of(known[0]),
            stored_seq=known[0],
        )
    return known


def _duplicate(draft: Draft, request: AppendRequest, known: list[int]) -> Receipt:
    """Return the receipt of a call that was stored before. Raises IdempotencyConflict."""
    stored: list[StoredEntry] = []
    head = MAIN
    for index, (entry, seq) in enumerate(zip(request.entries, known, strict=True)):
        found = _stored_before(draft, request, index, entry)
        if found is None:
            raise IdempotencyConflict(
                "an entry of this id or key is stored with different content; use a new id or key",
                entry_id=draft.id_of(seq),
                stored_seq=seq,
            )
        envelope, at = found
        stored.append(StoredEntry(envelope.id, envelope.parent_id, at, str(envelope.timestamp)))
        head = MAIN if isinstance(envelope.head, UnsetType) else envelope.head
    now_at = draft.head(head)
    leaf_id = draft.id_of(now_at.leaf) if now_at else None
    return Receipt(stored, leaf_id, stored[-1].seq, head, duplicate=True)


def _stored_before(
    draft: Draft, request: AppendRequest, index: int, entry: Staged
) -> tuple[_Envelope, int] | None:
    """Return the envelope and the seq of the stored entry that a call repeats; None without one.

    Several lines can have one id: a foreign writer may have added a later one, which the id then
    means.
    """
    assert not isinstance(entry.id, UnsetType), "an entry without an id is no retry"
    for seq in draft.find_all(entry.id):
        wire = draft.wire_of(seq)
        envelope = _envelope_of(wire)
        parent_sent = index == 0 and not isinstance(request.parent_id, UnsetType)
        if (
            envelope is not None
            and not (parent_sent and request.parent_id != envelope.parent_id)
            and _same_place(request, index, envelope)
            and _same_content(draft, entry, envelope, wire)
        ):
            return envelope, seq
    return None


def _envelope_of(wire: bytes) -> _Envelope | None:
    """Return the envelope of a stored entry; None for a line that no append of sessiond wrote."""
    try:
        return msgspec.json.decode(wire, type=_Envelope)
    except msgspec.DecodeError:
        return None


def _same_place(request: AppendRequest, index: int, envelope: _Envelope) -> bool:
    """Return whether a key covers as many entries as the stored append did.

    A call without a key counts as a match. So does a line without an atom: other dialects have no
    atoms, and a call of one entry needs none.
    """
    if request.idempotency_key is None or isinstance(envelope.atom, UnsetType):
        return True
    return envelope.atom == (index + 1, len(request.entries))


def _same_content(draft: Draft, entry: Staged, envelope: _Envelope, wire: bytes) -> bool:
    """Return whether storing `entry` would have produced the stored entry."""
    twin = msgspec.structs.replace(
        entry,
        id=envelope.id,
        parent_id=envelope.parent_id,
        timestamp=envelope.timestamp if entry.timestamp is UNSET else entry.timestamp,
        head=envelope.head,
        atom=envelope.atom,
        atom_of=envelope.atom_of,
    )
    try:
        again = draft.codec.wire(draft.codec.encode(twin))
        return msgspec.json.format(again, indent=-1) == msgspec.json.format(wire, indent=-1)
    except (EntryInvalid, msgspec.DecodeError):
        # This dialect cannot express the entry, or a foreign writer made the line: no match.
        return False


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
                or not _is_of_this_log(draft, request.expected)
            ):
                raise
            if _has_left(draft, head, request.expected) and not _moves_no_head(request):
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
    return head, draft.entry(request.parent_id, "parent_id")


def _has_left(draft: Draft, head: str, expected: Expected) -> bool:
    """Return whether the head moved since the caller looked; a label moves no head."""
    if not isinstance(expected.leaf_id, UnsetType):
        return expected.leaf_id != draft.id_of(draft.leaf(head))
    at = draft.head(head)
    return at is not None and not isinstance(expected.seq, UnsetType) and at.seq > expected.seq


def _is_of_this_log(draft: Draft, expected: Expected) -> bool:
    """Return whether the line that the caller saw last exists in this log."""
    return isinstance(expected.seq, UnsetType) or expected.seq <= draft.seq


def _branch_point(draft: Draft, request: AppendRequest) -> int | None:
    """Return the entry below which a conflict branches; None if the call names no such entry.

    Raises EntryNotFound for a `parent_id` that is no entry.
    """
    assert request.expected is not None, "only an expectation can fail"
    if isinstance(request.parent_id, str):
        return draft.entry(request.parent_id, "parent_id")
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
