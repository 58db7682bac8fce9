"""Parameters and answers of the methods that change the working state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from sessiond.errors import EntryInvalid, IdempotencyConflict
from sessiond.limits import PRUNE_DECISIONS, PRUNE_TOKENS
from sessiond.methods._shared.common import require_time
from sessiond.methods._shared.head_params import MOVE_ERRORS, MoveParams
from sessiond.model.deferred import DEFERRED
from sessiond.model.ids import derive_entry_ids
from sessiond.model.times import TimeText
from sessiond.model.working.entries import ArtifactSet, Decision, Rationale, StateText
from sessiond.rpc.calls import Call
from sessiond.service.actor.inbox import Command
from sessiond.service.client import Client
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.state_info import StateInfo, state_of
from sessiond.session.append_request import AppendRequest
from sessiond.session.draft import Draft
from sessiond.session.receipts import Receipt
from sessiond.session.working.changes import PruneLimits, change

STATE_ERRORS: Final = (*MOVE_ERRORS, EntryInvalid, IdempotencyConflict)
"""Errors of every method that changes the state."""
Limit = Annotated[int, Meta(ge=0, le=2**53 - 1)]


class ChangeParams(MoveParams):
    """Place of the entries that the change adds, and the condition to meet."""

    idempotency_key: Annotated[str, Meta(min_length=1, max_length=256)] | None = None


class SentDecision(Struct, frozen=True, forbid_unknown_fields=True):
    """Decision as a member of another call's parameters."""

    decision: StateText
    rationale: Rationale | None = None
    timestamp: TimeText | None = None


def decision_of(sent: SentDecision, path: str) -> Decision:
    """Return a decision to store. Raise InvalidParams for a time that is none."""
    time = None if sent.timestamp is None else require_time(sent.timestamp, path)
    return Decision(sent.decision, sent.rationale or None, time)


class StateResult(Struct, frozen=True):
    """Working state after the change, and where the change stands."""

    state: StateInfo
    leaf_id: str | None
    seq: int
    duplicate: bool


class Change(Struct, frozen=True):
    """A change of at most `entries` entries.

    `stage` gets an append without entries; `answer` makes the result of what `stage` returned, once
    the change is stored.
    """

    stage: Callable[[Draft, AppendRequest], Any]
    answer: Callable[[OpenSession, Any], Any]
    entries: int = 1


def submit_change(client: Client, call: Call[Client], params: ChangeParams, wanted: Change) -> Any:
    """Put a change into the inbox of the session."""
    place = AppendRequest(
        session_id=params.session_id,
        entries=(),
        head=params.head,
        expected=params.expected,
        lease_id=params.lease_id,
        idempotency_key=params.idempotency_key,
    )
    actor = client.service.actor(params.session_id)
    command = Command(
        call,
        lambda receipt, _durability: wanted.answer(actor.opened, receipt),
        lambda draft: wanted.stage(draft, place),
        ids=derive_entry_ids(params.session_id, params.idempotency_key, wanted.entries),
        entries=wanted.entries,
    )
    actor.submit(command)
    return DEFERRED


def one_change(effect: Decision | ArtifactSet) -> Change:
    """Return the change of one entry, answered with the state."""
    return Change(lambda draft, place: change(draft, place, effect), _changed)


def _changed(opened: OpenSession, receipt: Receipt) -> StateResult:
    return StateResult(state_of(opened), receipt.leaf_id, receipt.seq, receipt.duplicate)


def limits_of(max_decisions: int | None, max_tokens: int | None) -> PruneLimits:
    """Return the limits of a call, with the usual ones in place of those that it leaves out."""
    return PruneLimits(
        PRUNE_DECISIONS if max_decisions is None else max_decisions,
        PRUNE_TOKENS if max_tokens is None else max_tokens,
    )
