"""session/navigate: go to a point of the tree in the way a person means it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from sessiond.dialects.base import ContextLine
from sessiond.errors import (
    EntryInvalid,
    EntryNotFound,
    InvalidParams,
    PlanStale,
    SummarizerUnavailable,
    Vetoed,
)
from sessiond.limits import INSTRUCTIONS_CHARS_MAX
from sessiond.methods._shared.copies import require_same_log
from sessiond.methods._shared.head_params import MOVE_ERRORS, MoveParams
from sessiond.methods._shared.with_hooks import branch_notice, hooked
from sessiond.model.deferred import DEFERRED
from sessiond.model.ids import EntryId
from sessiond.model.requests import BeforeBranch, HookAnswer
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.actor import SessionActor
from sessiond.service.actor.inbox import Command
from sessiond.service.actor.internal_commands import submit_and_wait
from sessiond.service.client import Client
from sessiond.service.compaction.branch_summary import (
    branch_plan,
    branch_wanted,
    stored_of_branch,
)
from sessiond.service.copying.source import Source
from sessiond.service.log.log_reader import LogReader
from sessiond.service.summaries.runs import Planned
from sessiond.session.draft import Draft
from sessiond.session.index import Session
from sessiond.session.moves import Condition
from sessiond.session.navigate import (
    Navigated,
    NavigateRequest,
    Way,
    lines_to_look_at,
    navigate,
    require_may_go,
    require_stayed,
    way,
)


class NavigateParams(MoveParams, kw_only=True):
    """Target; summary of the abandoned branch; label for the summary, or for the target.

    With `summarize` the daemon has the summary written, by the instructions.
    """

    entry_id: EntryId | None
    summary: str = ""
    details: Raw | UnsetType = UNSET
    label: str | None = None
    summarize: bool = False
    instructions: Annotated[str, Meta(max_length=INSTRUCTIONS_CHARS_MAX)] | None = None


def handle(client: Client, params: NavigateParams, call: Call[Client]) -> Any:
    """Put the move into the inbox; the entry's content decides there whether the head moves.

    With `summarize` the move waits for its summary.
    """
    _require_one_writer(params)

    async def about(actor: SessionActor) -> BeforeBranch | None:
        told = branch_notice(actor, params.head, params.entry_id)
        told = msgspec.structs.replace(
            told,
            summarize=params.summarize,
            instructions=params.instructions,
            label=params.label,
        )
        return told if await _moves(actor, params) else None

    def go_on(supplied: HookAnswer) -> Any:
        if params.label is None:
            params.label = supplied.label
        if params.summarize and not supplied.summary:
            return _have_summarized(client, params, call)
        return _submit(client, params, call, supplied.summary)

    return hooked(client, call, params.session_id, "before_branch", about=about, go_on=go_on)


def _require_one_writer(params: NavigateParams) -> None:
    """Raise InvalidParams for parameters of a summary that is written by another one than the call says."""
    if not params.summarize:
        if params.instructions is not None:
            raise InvalidParams(
                "instructions are for a summary that the daemon has written: send summarize",
                path="instructions",
            )
        return
    for name, is_given in (("summary", params.summary), ("details", params.details is not UNSET)):
        if is_given:
            raise InvalidParams(
                f"summarize has the summary written: leave {name} out, or summarize", path=name
            )


async def _moves(actor: SessionActor, params: NavigateParams) -> bool:
    """Return whether the head would move. A head that stays abandons no branch. Raise HeadNotFound."""
    opened, request = actor.opened, _request(actor, params)
    seqs = list(lines_to_look_at(opened.session, request))
    lines = dict(zip(seqs, await LogReader(opened).read_many(seqs), strict=True))
    draft = Draft(opened.session, opened.dialect, new_id=str, now="", stored=lines)
    going = way(draft, request)
    return going.to != going.leaf


def _request(actor: SessionActor, params: NavigateParams, supplied: str = "") -> NavigateRequest:
    def text_of(entry_id: str, kind: int, line: bytes) -> str | None:
        dialect = actor.opened.dialect
        messages = dialect.context([ContextLine(entry_id, kind, line)])
        reading = dialect.read(messages[0].body) if messages else None
        if reading is None or reading.is_result:
            return None
        return "".join(block.text for block in reading.blocks if block.kind == "text")

    return NavigateRequest(
        entry_id=params.entry_id,
        text_of=text_of,
        head=params.head,
        summary=params.summary,
        supplied=supplied,
        details=params.details,
        label=params.label,
        condition=params.condition,
    )


def _submit(client: Client, params: NavigateParams, call: Call[Client], supplied: str) -> Any:
    actor = client.service.actor(params.session_id)
    request = _request(actor, params, supplied)
    actor.submit(
        Command(
            call,
            lambda receipt, _durability: receipt,
            lambda draft: navigate(draft, request),
            reads=lambda session: lines_to_look_at(session, request),
        )
    )
    return DEFERRED


def _have_summarized(client: Client, params: NavigateParams, call: Call[Client]) -> Any:
    """Have a summary of the branch written that the head would leave, then move the head."""
    actor = client.service.actor(params.session_id)
    runs, policies = client.service.runs, actor.environment.policies
    request = _request(actor, params)

    def reads(session: Session) -> Iterator[int]:
        return lines_to_look_at(session, request)

    def begin(going: Way, _durability: Any) -> Any:
        here = Source.of(actor, params.head)
        opened, places = here.opened, (going.leaf, going.target)

        async def plan() -> Planned:
            planned = await runs.read(branch_plan, opened, policies, places, params.instructions)

            def stage(draft: Draft) -> Navigated:
                require_same_log(actor, here)
                require_stayed(draft, request, going)
                return navigate(draft, request)

            async def commit(summary: str) -> Navigated:
                if summary:
                    request.summary = stored_of_branch(opened, policies, planned, summary)
                    request.details = planned.details
                # The caller's expectation was checked before the summary was written.
                request.condition = Condition(lease_id=params.lease_id)
                made: Navigated = await submit_and_wait(actor, stage, client, call.origin_id, reads)
                return made

            return branch_wanted(planned, params.session_id, params.head), commit

        return runs.have_written(actor, call, plan)

    return actor.submit(
        Command(call, begin, lambda draft: require_may_go(draft, request), reads=reads, entries=0)
    )


METHOD = Method(
    name="session/navigate",
    params=NavigateParams,
    result=Navigated,
    handle=handle,
    access="write",
    errors=(
        *MOVE_ERRORS,
        EntryNotFound,
        EntryInvalid,
        PlanStale,
        SummarizerUnavailable,
        Vetoed,
    ),
)
