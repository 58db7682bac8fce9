"""session/task: count a turn of an agent, with its decision, and prune if a limit is passed."""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import Meta

from sessiond.methods._shared.state_changes import (
    STATE_ERRORS,
    Change,
    ChangeParams,
    SentDecision,
    decision_of,
    limits_of,
    submit_change,
)
from sessiond.methods.session.brief import Brief, brief
from sessiond.model.working.entries import Decision, TaskDone, TaskText
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.client import Client
from sessiond.service.log.open_session import OpenSession
from sessiond.session.append_request import AppendRequest
from sessiond.session.draft import Draft
from sessiond.session.working.changes import Pruned, do_task

# A task, its decision, and a prune.
_ENTRIES_MAX: Final = 3
Added = Annotated[int, Meta(ge=-(2**53) + 1, le=2**53 - 1)]


class TaskParams(ChangeParams):
    """Task; its decision; its tokens and turns, where less than 0 counts as 0."""

    task: TaskText | None = None
    decision: SentDecision | None = None
    tokens_added: Added = 0
    turns_added: Added = 1


class TaskResult(Brief, frozen=True):
    """Brief after the task, whether the call pruned, and where the task stands."""

    pruned: bool
    leaf_id: str | None
    seq: int
    duplicate: bool


def handle(client: Client, params: TaskParams, call: Call[Client]) -> Any:
    """Put the task into the inbox of the session."""
    effects: list[TaskDone | Decision] = [_done(params)]
    if params.decision is not None:
        effects.append(decision_of(params.decision, "decision.timestamp"))

    def stage(draft: Draft, place: AppendRequest) -> Pruned:
        return do_task(draft, place, effects, limits_of(None, None))

    return submit_change(client, call, params, Change(stage, _answer, _ENTRIES_MAX))


def _done(params: TaskParams) -> TaskDone:
    """Return what the call adds. A call that only adds tokens counts no task."""
    only_tokens = params.tokens_added and params.turns_added == 0
    is_task = not only_tokens or params.task is not None or params.decision is not None
    return TaskDone(
        params.task, max(0, params.turns_added), int(is_task), max(0, params.tokens_added)
    )


def _answer(opened: OpenSession, outcome: Pruned) -> TaskResult:
    made, receipt = brief(opened), outcome.receipt
    assert receipt is not None, "a task is always stored"
    return TaskResult(
        made.session_id,
        made.resume,
        made.context,
        made.state,
        made.model,
        outcome.pruned,
        receipt.leaf_id,
        receipt.seq,
        receipt.duplicate,
    )


METHOD = Method(
    name="session/task",
    params=TaskParams,
    result=TaskResult,
    handle=handle,
    access="write",
    errors=STATE_ERRORS,
)
