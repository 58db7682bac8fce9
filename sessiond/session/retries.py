"""Retries of an append or a merge: whether an earlier call stored its entries, and that call's receipt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType

from sessiond import typed
from sessiond.errors import EntryInvalid, IdempotencyConflict
from sessiond.model.entries import SessionInfoEntry
from sessiond.model.ids import MAIN, derive_entry_ids
from sessiond.session.append_request import AppendRequest
from sessiond.session.draft import Draft, Staged
from sessiond.session.receipts import Receipt, StoredEntry

_PLACE: Final = frozenset({"id", "parent_id", "timestamp", "head", "atom", "atom_of", "seq"})
"""Members that say where and when an entry was stored, and nothing of its content."""


class _Envelope(Struct):
    id: str
    parent_id: str | None = None
    timestamp: str | float = ""
    head: str | UnsetType = UNSET
    atom: tuple[int, int] | UnsetType = UNSET
    atom_of: str | UnsetType = UNSET


def stored_already(draft: Draft, request: AppendRequest) -> list[int]:
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


def earlier_receipt(draft: Draft, request: AppendRequest, known: list[int]) -> Receipt:
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
    return _receipt(draft, stored, head)


def earlier_merge(draft: Draft, request: AppendRequest, *, is_text_sent: bool) -> Receipt | None:
    """Return the receipt of the turn that is stored under the key of a call; None without one.

    The other session may have grown, and the daemon may have written the text. So the merged session
    is compared, and the text only if the caller sent one. Raises IdempotencyConflict.
    """
    ids = derive_entry_ids(request.session_id, request.idempotency_key, len(request.entries))
    known = list(map(draft.find, ids))
    if not any(known):
        return None
    stored: list[StoredEntry] = []
    head = MAIN
    for index, (entry, entry_id, seq) in enumerate(zip(request.entries, ids, known, strict=True)):
        found = _members(draft.wire_of(seq)) if seq else {}
        at = found.get("timestamp", "")
        twin = msgspec.structs.replace(
            entry, id=entry_id, parent_id=found.get("parent_id"), timestamp=at
        )
        wanted = _members(draft.codec.wire(draft.codec.encode(twin)))
        is_compared = index == 0 or is_text_sent
        if not found or (is_compared and _content(found) != _content(wanted)):
            raise IdempotencyConflict(
                "entries of another call are stored under the key; use a new key",
                entry_id=entry_id,
                stored_seq=seq or max(known),
            )
        stored.append(StoredEntry(entry_id, found.get("parent_id"), seq, str(at)))
        head = found.get("head", MAIN)
    return _receipt(draft, stored, head)


def _receipt(draft: Draft, stored: list[StoredEntry], head: str) -> Receipt:
    """Return the receipt of entries that an earlier call has stored, with the head's leaf of now."""
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
        return typed.decode(wire, _Envelope)
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
        if isinstance(twin, SessionInfoEntry):
            twin = _as_whole(twin, wire, draft.session.rules.whole_info)
        again = draft.codec.wire(draft.codec.encode(twin))
        return msgspec.json.format(again, indent=-1) == msgspec.json.format(wire, indent=-1)
    except (EntryInvalid, msgspec.DecodeError):
        # This dialect cannot express the entry, or a foreign writer made the line: no match.
        return False


def _as_whole(twin: SessionInfoEntry, wire: bytes, names: Sequence[str]) -> SessionInfoEntry:
    """Return the entry with the facts that the stored one repeats because no call changed them."""
    if not names:
        return twin
    stored = typed.decode(wire, SessionInfoEntry)
    same = {name: getattr(stored, name) for name in names if getattr(twin, name) is UNSET}
    if same.get("metadata", UNSET) is None:
        same["metadata"] = UNSET
    return msgspec.structs.replace(twin, **same)


def _members(wire: bytes) -> dict[str, Any]:
    """Return the members of an entry; none for a line that a foreign writer spoilt."""
    try:
        return typed.decode(wire, dict[str, Any])
    except msgspec.DecodeError:
        return {}


def _content(members: dict[str, Any]) -> dict[str, Any]:
    """Return what an entry of a merge says, without times and the other session's leaf."""
    content = {name: value for name, value in members.items() if name not in _PLACE}
    for holder, moving in (("data", ("leaf_id",)), ("message", ("timestamp", "id"))):
        held = content.get(holder)
        if isinstance(held, dict):
            members = cast("dict[str, Any]", held)
            content[holder] = {name: one for name, one in members.items() if name not in moving}
    return content
