"""Changes of the working state: decisions, artifacts, tasks and prunes as entries of one append.

Law: a task, its decision and the prune that they cause are one atom. A retry stores nothing: its
key finds the first call's entries, and so also the prune that the first call added.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw, Struct

from sessiond import typed
from sessiond.model.entries import Custom
from sessiond.model.ids import derive_entry_id
from sessiond.model.working.entries import (
    PRUNE,
    ArtifactSet,
    Decision,
    Prune,
    TaskDone,
    custom_type_of,
)
from sessiond.model.working.state import PruneReason, WorkingState, prune_reasons
from sessiond.session.append import append
from sessiond.session.append_request import AppendRequest
from sessiond.session.draft import Draft
from sessiond.session.receipts import Receipt

_encode: Final = msgspec.json.Encoder().encode


class PruneLimits(Struct, frozen=True):
    """Limits above which a prune is due."""

    max_decisions: int
    max_tokens: int

    def passed(self, state: WorkingState) -> list[PruneReason]:
        """Return which of the limits a state has passed."""
        return prune_reasons(state, self.max_decisions, self.max_tokens)


class Pruned(Struct):
    """Outcome of a change that may prune: its receipt, None if nothing was stored, and the prune."""

    receipt: Receipt | None
    pruned: bool
    reasons: list[PruneReason]


def change(draft: Draft, place: AppendRequest, effect: Decision | ArtifactSet) -> Receipt:
    """Stage one entry of the state; `place` is an append without entries."""
    return append(draft, _with(place, [_entry(effect)]))


def do_task(
    draft: Draft,
    place: AppendRequest,
    effects: list[TaskDone | Decision],
    limits: PruneLimits,
) -> Pruned:
    """Stage a task with its decision, and a prune if the state passes a limit by them."""
    entries = [_entry(effect) for effect in effects]
    if _is_stored(draft, place, 0):
        earlier = _stored_prune(draft, place, len(entries))
        entries += [] if earlier is None else [earlier]
        return Pruned(append(draft, _with(place, entries)), earlier is not None, [])
    state = draft.state.copied()
    for effect in effects:
        state.take(effect, 0, draft.now)
    reasons = limits.passed(state)
    if reasons:
        entries.append(_entry(_prune(limits, reasons)))
    return Pruned(append(draft, _with(place, entries)), bool(reasons), reasons)


def prune(draft: Draft, place: AppendRequest, limits: PruneLimits, *, force: bool) -> Pruned:
    """Stage a prune if a limit is passed, or anyway with `force`."""
    if _is_stored(draft, place, 0):
        earlier = _stored_prune(draft, place, 0) or _entry(_prune(limits, []))
        return Pruned(append(draft, _with(place, [earlier])), pruned=True, reasons=[])
    reasons = limits.passed(draft.state)
    if not reasons and not force:
        draft.require_writable()
        return Pruned(None, pruned=False, reasons=[])
    made = append(draft, _with(place, [_entry(_prune(limits, reasons))]))
    return Pruned(made, pruned=True, reasons=reasons)


def _prune(limits: PruneLimits, reasons: list[PruneReason]) -> Prune:
    return Prune(limits.max_decisions, limits.max_tokens, clear_artifacts="tokens" in reasons)


def _entry(effect: Decision | ArtifactSet | TaskDone | Prune) -> Custom:
    return Custom(custom_type=custom_type_of(effect), data=Raw(_encode(effect)))


def _with(place: AppendRequest, entries: list[Custom]) -> AppendRequest:
    return msgspec.structs.replace(place, entries=entries)


def _is_stored(draft: Draft, place: AppendRequest, index: int) -> bool:
    return _derived(draft, place, index) != 0


def _derived(draft: Draft, place: AppendRequest, index: int) -> int:
    """Return the line of an entry that the key of the call names; 0 if there is none."""
    if place.idempotency_key is None:
        return 0
    return draft.find(derive_entry_id(place.session_id, place.idempotency_key, index))


def _stored_prune(draft: Draft, place: AppendRequest, index: int) -> Custom | None:
    """Return the prune that an earlier call with the key stored at this place; None without one.

    The call does not say the data of its prune, so that the data cannot differ from what is stored.
    """
    seq = _derived(draft, place, index)
    if not seq:
        return None
    try:
        stored = typed.decode(draft.wire_of(seq), _StoredCustom)
    except msgspec.DecodeError:
        return None
    return Custom(custom_type=PRUNE, data=stored.data)


class _StoredCustom(Struct):
    data: Raw
