"""session/compact: commit a summary, or replacement messages, below a head; under a plan or not."""

from __future__ import annotations

from typing import Annotated, Any

from anyio import to_thread
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from sessiond.errors import (
    EntryInvalid,
    EntryNotFound,
    HeadNotFound,
    IdempotencyConflict,
    InvalidParams,
    LeaseHeld,
    LeaseLost,
    PlanStale,
    PreconditionFailed,
    SessionArchived,
    StorageError,
    SummarizerUnavailable,
)
from sessiond.limits import PLAN_ID_CHARS_MAX
from sessiond.methods.common import DEFERRED, Call, Client, Method, SessionParams
from sessiond.methods.moving import LeaseId
from sessiond.model.entries import MessageBytes
from sessiond.model.ids import MAIN, EntryId, HeadName, derive_entry_id
from sessiond.service.host import Host
from sessiond.service.inbox import Command
from sessiond.service.planning import files_before
from sessiond.session.append import Expected, Receipt
from sessiond.session.compaction import CompactRequest, compact
from sessiond.session.draft import Draft
from sessiond.session.files import Files
from sessiond.session.plan_id import PlanRef, decode_plan_id

__all__ = ["METHOD"]


class CompactParams(SessionParams):
    """A summary and the first entry to keep, or the messages that take the context's place.

    Under a plan, the plan says what is kept, and of which head it is.
    """

    plan_id: Annotated[str, Meta(max_length=PLAN_ID_CHARS_MAX)] | None = None
    summary: str | UnsetType = UNSET
    first_kept_entry_id: EntryId | UnsetType | None = UNSET
    messages: list[MessageBytes] | UnsetType = UNSET
    tokens_before: Annotated[int, Meta(ge=0)] | UnsetType = UNSET
    details: Raw | UnsetType = UNSET
    head: HeadName | None = None
    expected: Expected | None = None
    lease_id: LeaseId | None = None
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
    """Put the compaction in line; the files of a plan that was forgotten are read first."""
    request = _request(params)
    host = client.service.host(params.session_id)
    plan_id = params.plan_id
    if plan_id is None or request.details is not UNSET or request.messages is not UNSET:
        _submit(host, call, request)
        return DEFERRED
    known = host.plan_files.get(plan_id) if host.is_open else None
    if known is not None:
        _submit(host, call, request, known)
        return DEFERRED

    async def read() -> Any:
        files = await to_thread.run_sync(_files, host, request)
        return _submit(host, call, request, files)

    host.ask(call, lambda: host.later(call, read))
    return DEFERRED


def _request(params: CompactParams) -> CompactRequest:
    """The call, checked. Raises InvalidParams, SummarizerUnavailable."""
    if params.summary is UNSET and params.messages is UNSET:
        raise SummarizerUnavailable(
            "nobody here writes summaries: send summary or messages", plan=None
        )
    if params.summary is not UNSET and params.messages is not UNSET:
        raise InvalidParams("send summary or messages, not both", path="messages")
    if params.messages is not UNSET and params.first_kept_entry_id is not UNSET:
        raise InvalidParams("messages replace everything", path="first_kept_entry_id")
    plan = None if params.plan_id is None else _plan(params, params.plan_id)
    return CompactRequest(
        session_id=params.session_id,
        summary=params.summary,
        first_kept_entry_id=params.first_kept_entry_id,
        messages=params.messages,
        tokens_before=params.tokens_before,
        details=params.details,
        head=params.head or (MAIN if plan is None else plan.head),
        expected=params.expected,
        lease_id=params.lease_id,
        idempotency_key=params.idempotency_key,
        plan=plan,
    )


def _plan(params: CompactParams, plan_id: str) -> PlanRef:
    """What the plan was made for. Raises InvalidParams where the call says otherwise."""
    plan = decode_plan_id(plan_id)
    if plan.session_id != params.session_id:
        raise InvalidParams("the plan is of another session", path="plan_id")
    if params.head not in {None, plan.head}:
        raise InvalidParams(f"the plan is of the head {plan.head}: leave head out", path="head")
    if params.first_kept_entry_id not in {UNSET, plan.first_kept_entry_id}:
        raise InvalidParams(
            "the plan says what is kept: leave first_kept_entry_id out", path="first_kept_entry_id"
        )
    return plan


def _submit(
    host: Host,
    call: Call[Client],
    request: CompactRequest,
    files: Files | None = None,
) -> Any:
    key = request.idempotency_key
    messages = request.messages

    def stage(draft: Draft) -> Receipt:
        if files is not None:
            request.details = host.opened.dialect.file_details(files.read, files.modified)
        return compact(draft, request)

    return host.submit(
        Command(
            call,
            lambda receipt, _durability: _result(host, request, call, receipt),
            stage,
            ids=(derive_entry_id(request.session_id, key, 0),) if key is not None else (),
            size=0 if isinstance(messages, UnsetType) else sum(map(len, messages)),
        )
    )


def _files(host: Host, request: CompactRequest) -> Files | None:
    """The files of a plan as it saw them; None where it fits no more, which is told then."""
    plan, session = request.plan, host.opened.session
    assert plan is not None, "else nobody asks"
    leaf, kept = session.node(plan.leaf_id), session.node(plan.first_kept_entry_id)
    if not leaf or not kept:
        return None
    return files_before(host.opened, leaf, kept, host.environment.policies.of(host.opened))


def _result(
    host: Host, request: CompactRequest, call: Call[Client], receipt: Receipt
) -> CompactResult | Any:
    """The answer; LATER when the estimates take a while."""
    (stored,) = receipt.entries
    said = request.tokens_before
    if isinstance(said, UnsetType) and request.plan is not None:
        said = request.plan.tokens_before
    before = None if isinstance(said, UnsetType) else said
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
        PlanStale,
        SummarizerUnavailable,
    ),
)
