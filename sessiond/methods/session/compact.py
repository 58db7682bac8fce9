"""session/compact: commit a summary or replacement messages below a head, or run a whole compaction."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from anyio import to_thread
from msgspec import UNSET, Meta, Raw, UnsetType

from sessiond.errors import (
    EntryInvalid,
    EntryNotFound,
    IdempotencyConflict,
    InvalidParams,
    NothingToCompact,
    PlanStale,
    SummarizerUnavailable,
    Vetoed,
)
from sessiond.limits import INSTRUCTIONS_CHARS_MAX, PLAN_ID_CHARS_MAX
from sessiond.methods._shared.common import SessionParams
from sessiond.methods._shared.head_params import MOVE_ERRORS, LeaseId
from sessiond.methods._shared.with_hooks import hooked
from sessiond.model.deferred import DEFERRED
from sessiond.model.entries import MessageBytes
from sessiond.model.ids import MAIN, EntryId, HeadName, derive_entry_ids
from sessiond.model.requests import BeforeCompact
from sessiond.model.settings import Tokens
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.actor import SessionActor
from sessiond.service.actor.inbox import Command
from sessiond.service.client import Client
from sessiond.service.compaction.division import files_before
from sessiond.service.compaction.figures import figures_in, lines_to_count
from sessiond.service.compaction.rendering import lines_to_read, renderer
from sessiond.service.compaction.result import (
    CompactResult,
    EntryRef,
    result_with_figures,
    stored_result,
    tell_completed,
)
from sessiond.service.compaction.run import CompactionRequest
from sessiond.session.append_request import Expected
from sessiond.session.compaction.compaction import (
    CompactRequest,
    compact,
    require_may_run,
)
from sessiond.session.compaction.plan_id import PlanRef, decode_plan_id
from sessiond.session.compaction.touched_files import TouchedFiles
from sessiond.session.draft import Draft
from sessiond.session.receipts import Receipt


class CompactParams(SessionParams):
    """Summary and first entry to keep, or messages that replace the context.

    With a plan_id, the plan names the head and the first entry to keep. With neither summary nor
    messages the daemon plans, has a summary written by the instructions, and commits the summary;
    then a first entry to keep is where the plan cuts.
    """

    plan_id: Annotated[str, Meta(max_length=PLAN_ID_CHARS_MAX)] | None = None
    summary: str | UnsetType = UNSET
    first_kept_entry_id: EntryId | UnsetType | None = UNSET
    messages: list[MessageBytes] | UnsetType = UNSET
    tokens_before: Tokens | UnsetType = UNSET
    details: Raw | UnsetType = UNSET
    head: HeadName | None = None
    expected: Expected | None = None
    lease_id: LeaseId | None = None
    idempotency_key: Annotated[str, Meta(min_length=1, max_length=256)] | None = None
    instructions: Annotated[str, Meta(max_length=INSTRUCTIONS_CHARS_MAX)] | None = None


def handle(client: Client, params: CompactParams, call: Call[Client]) -> Any:
    """Run a whole compaction, or run the hooks and commit the result that the caller sent."""
    if params.summary is UNSET and params.messages is UNSET:
        return _run(client, params, call)
    request = _request(params)
    return hooked(
        client,
        call,
        params.session_id,
        "before_compact",
        about=lambda actor: BeforeCompact(actor.session_id, request.head, plan=None),
        # The caller sent the result, so a summary that a hook supplies is not used.
        go_on=lambda _supplied: _commit(client, call, request, params.plan_id),
    )


def _commit(
    client: Client, call: Call[Client], request: CompactRequest, plan_id: str | None
) -> Any:
    """Put the compaction into the inbox; read the touched files first if the plan is forgotten."""
    actor = client.service.actor(request.session_id)
    if plan_id is None or request.details is not UNSET or request.messages is not UNSET:
        _submit(actor, call, request)
        return DEFERRED
    known = actor.plan_files.get(plan_id) if actor.is_open else None
    if known is not None:
        _submit(actor, call, request, known)
        return DEFERRED

    async def read() -> Any:
        files = await to_thread.run_sync(_files, actor, request)
        return _submit(actor, call, request, files)

    actor.ask(call, lambda: actor.later(call, read))
    return DEFERRED


def _run(client: Client, params: CompactParams, call: Call[Client]) -> Any:
    """Run the compaction after earlier requests; answer a retry with the stored result."""
    for name in ("plan_id", "tokens_before", "details"):
        sent = getattr(params, name)
        if sent is not UNSET and sent is not None:
            raise InvalidParams(f"{name} needs a summary or messages beside it", path=name)
    actor = client.service.actor(params.session_id)
    head = params.head or MAIN
    request = CompactRequest(
        session_id=params.session_id,
        head=head,
        expected=params.expected,
        lease_id=params.lease_id,
        idempotency_key=params.idempotency_key,
    )
    kept = None if params.first_kept_entry_id is UNSET else params.first_kept_entry_id
    wish = CompactionRequest(
        head, params.instructions, params.lease_id, params.idempotency_key, kept
    )

    def check(draft: Draft) -> int:
        if kept is not None:
            draft.node(kept, "first_kept_entry_id")
        return require_may_run(draft, request)

    def begin(stored: int, _durability: str) -> Any:
        if not stored:
            return client.service.compactions.join(actor, call, wish)
        return result_with_figures(actor, call, stored_result(actor, head, stored), None)

    actor.submit(Command(call, begin, check, entries=0))
    return DEFERRED


def _request(params: CompactParams) -> CompactRequest:
    """Return the call as a checked request. Raise InvalidParams."""
    if params.instructions is not None:
        raise InvalidParams(
            "instructions are for a summary that the daemon has written: leave them out beside"
            " summary or messages",
            path="instructions",
        )
    if params.summary is not UNSET and params.messages is not UNSET:
        raise InvalidParams("send summary or messages, not both", path="messages")
    if params.messages is not UNSET and params.first_kept_entry_id is not UNSET:
        raise InvalidParams(
            "messages replace the whole context: leave first_kept_entry_id out",
            path="first_kept_entry_id",
        )
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
    """Return the plan that a plan_id names. Raise InvalidParams where the call contradicts it."""
    plan = decode_plan_id(plan_id)
    if plan.session_id != params.session_id:
        raise InvalidParams("the plan was made for another session", path="plan_id")
    if params.head not in {None, plan.head}:
        raise InvalidParams(
            f"the plan was made for the head {plan.head}: leave head out", path="head"
        )
    if params.first_kept_entry_id not in {UNSET, plan.first_kept_entry_id}:
        raise InvalidParams(
            "the plan names the first entry to keep: leave first_kept_entry_id out",
            path="first_kept_entry_id",
        )
    return plan


def _submit(
    actor: SessionActor,
    call: Call[Client],
    request: CompactRequest,
    files: TouchedFiles | None = None,
) -> Any:
    messages = request.messages

    def is_result(line: bytes) -> bool:
        reading = actor.opened.dialect.reading(line)
        return reading is not None and reading.is_result

    def stage(draft: Draft) -> Receipt:
        if files is not None:
            request.details = actor.opened.dialect.file_details(files.read, files.modified)
        request.figures = figures_in(actor, draft, request)
        return compact(draft, request, is_result, renderer(actor.opened))

    return actor.submit(
        Command(
            call,
            lambda receipt, _durability: _result(actor, request, call, receipt),
            stage,
            ids=derive_entry_ids(request.session_id, request.idempotency_key, 1),
            reads=lambda session: {
                *lines_to_read(actor, request)(session),
                *lines_to_count(session, request.head),
            },
            size=0 if isinstance(messages, UnsetType) else sum(map(len, messages)),
        )
    )


def _files(actor: SessionActor, request: CompactRequest) -> TouchedFiles | None:
    """Return the files touched in the plan's range, or None where the plan no longer fits.

    A plan that no longer fits is refused when the compaction is staged.
    """
    plan, session = request.plan, actor.opened.session
    assert plan is not None, "called for a plan only"
    leaf, kept = session.node(plan.leaf_id), session.node(plan.first_kept_entry_id)
    if not leaf or not kept:
        return None
    return files_before(actor.opened, leaf, kept, actor.environment.policies.of(actor.opened))


def _result(
    actor: SessionActor, request: CompactRequest, call: Call[Client], receipt: Receipt
) -> CompactResult | Any:
    """Return the answer, or DEFERRED while the estimates are computed."""
    (stored,) = receipt.entries
    said = request.tokens_before
    if isinstance(said, UnsetType) and request.plan is not None:
        said = request.plan.tokens_before
    entry = EntryRef(stored.id, stored.seq)
    result = CompactResult(entry, receipt.leaf_id, receipt.seq, None, None)
    # A retry under a key is no news.
    told = None if receipt.duplicate else partial(tell_completed, actor, receipt.head)
    before = None if isinstance(said, UnsetType) else said
    return result_with_figures(actor, call, result, before, told)


METHOD = Method(
    name="session/compact",
    aliases=("compact",),
    params=CompactParams,
    result=CompactResult,
    handle=handle,
    access="write",
    errors=(
        *MOVE_ERRORS,
        EntryNotFound,
        EntryInvalid,
        IdempotencyConflict,
        PlanStale,
        SummarizerUnavailable,
        Vetoed,
        NothingToCompact,
    ),
)
