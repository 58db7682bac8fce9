"""session/compact: commit a summary, or replacement messages, below a head."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from sessiond.errors import (
    EntryInvalid,
    EntryNotFound,
    HeadNotFound,
    IdempotencyConflict,
    InvalidParams,
    LeaseHeld,
    LeaseLost,
    PreconditionFailed,
    SessionArchived,
    StorageError,
    SummarizerUnavailable,
)
from sessiond.methods.common import DEFERRED, Call, Client, Method
from sessiond.methods.moving import MoveParams
from sessiond.model.entries import MessageBytes
from sessiond.model.ids import EntryId, derive_entry_id
from sessiond.service.host import Host
from sessiond.service.inbox import Command
from sessiond.session.append import Receipt
from sessiond.session.compaction import CompactRequest, compact

__all__ = ["METHOD"]


class CompactParams(MoveParams):
    """A summary and the first entry to keep, or the messages that take the context's place."""

    summary: str | UnsetType = UNSET
    first_kept_entry_id: EntryId | UnsetType | None = UNSET
    messages: list[MessageBytes] | UnsetType = UNSET
    tokens_before: Annotated[int, Meta(ge=0)] | UnsetType = UNSET
    details: Raw | UnsetType = UNSET
    idempotency_key: Annotated[str, Meta(min_length=1, max_length=256)] | None = None


class EntryRef(Struct, frozen=True):
    """An entry by id and seq."""

    id: str
    seq: int


class CompactResult(Struct, frozen=True):
    """The compaction, and what it saved.

    The figures are estimates unless given; null where the disk does not give what they take.
    """

    entry: EntryRef
    leaf_id: str | None
    seq: int
    tokens_before: int | None
    tokens_after: int | None


def handle(client: Client, params: CompactParams, call: Call[Client]) -> Any:
    """Put the compaction in line."""
    if params.summary is UNSET and params.messages is UNSET:
        raise SummarizerUnavailable(
            "nobody here writes summaries: send summary or messages", plan=None
        )
    if params.summary is not UNSET and params.messages is not UNSET:
        raise InvalidParams("send summary or messages, not both", path="messages")
    if params.messages is not UNSET and params.first_kept_entry_id is not UNSET:
        raise InvalidParams("messages replace everything", path="first_kept_entry_id")
    request = CompactRequest(
        session_id=params.session_id,
        summary=params.summary,
        first_kept_entry_id=params.first_kept_entry_id,
        messages=params.messages,
        tokens_before=params.tokens_before,
        details=params.details,
        head=params.head,
        expected=params.expected,
        lease_id=params.lease_id,
        idempotency_key=params.idempotency_key,
    )
    key = params.idempotency_key
    host = client.service.host(params.session_id)
    host.submit(
        Command(
            call,
            lambda receipt, _durability: _result(host, params, call, receipt),
            lambda draft: compact(draft, request),
            ids=(derive_entry_id(params.session_id, key, 0),) if key is not None else (),
            size=0 if isinstance(params.messages, UnsetType) else sum(map(len, params.messages)),
        )
    )
    return DEFERRED


def _result(
    host: Host, params: CompactParams, call: Call[Client], receipt: Receipt
) -> CompactResult | Any:
    """The answer; LATER when the estimates take a while."""
    (stored,) = receipt.entries
    sent = params.tokens_before
    before = None if isinstance(sent, UnsetType) else sent
    above = host.opened.session.parents[stored.seq]

    def result(before: int | None, after: int | None) -> CompactResult:
        entry = EntryRef(stored.id, stored.seq)
        return CompactResult(entry, receipt.leaf_id, receipt.seq, before, after)

    async def estimate() -> CompactResult:
        try:
            earlier = await host.estimates.ask(above) if before is None else before
            return result(earlier, await host.estimates.ask(stored.seq))
        except StorageError:
            return result(before, None)

    try:
        earlier = host.estimates.now(above) if before is None else before
        after = host.estimates.now(stored.seq)
    except StorageError:
        # It is stored all the same, which is what the caller has to know.
        return result(before, None)
    if earlier is None or after is None:
        return host.later(call, estimate)
    return result(earlier, after)


METHOD = Method(
    name="session/compact",
    aliases=("compact",),
    params=CompactParams,
    result=CompactResult,
    handle=handle,
    access="write",
    errors=(
        SessionArchived,
        EntryNotFound,
        EntryInvalid,
        PreconditionFailed,
        IdempotencyConflict,
        HeadNotFound,
        LeaseHeld,
        LeaseLost,
        SummarizerUnavailable,
    ),
)
