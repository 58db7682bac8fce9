"""session/plan_compaction: what a compaction would summarise, ready for a model; a pure read."""

from __future__ import annotations

from typing import Annotated, Any

from anyio import to_thread
from msgspec import Meta, Struct

from sessiond.errors import HeadNotFound
from sessiond.limits import INSTRUCTIONS_CHARS_MAX
from sessiond.methods.common import (
    Call,
    Client,
    Method,
    SessionParams,
    ask,
    encode,
    require_result_fits,
)
from sessiond.methods.place import head_leaf
from sessiond.model.ids import MAIN, HeadName
from sessiond.model.reading import Reading
from sessiond.model.settings import Tokens
from sessiond.service.host import Host
from sessiond.service.planning import Division, plan_at
from sessiond.session.plan_id import PlanRef, encode_plan_id
from sessiond.session.planning import Reason, Step
from sessiond.session.prompts import Material, compaction_prompt

__all__ = ["METHOD"]


class PlanCompactionParams(SessionParams):
    """At which head; how much of the newest is kept; what the summary shall mind above all."""

    head: HeadName = MAIN
    keep_recent_tokens: Tokens | None = None
    instructions: Annotated[str, Meta(max_length=INSTRUCTIONS_CHARS_MAX)] | None = None


class PlannedFiles(Struct, frozen=True):
    """Files that the summarised messages were about, sorted."""

    read: tuple[str, ...]
    modified: tuple[str, ...]


class CompactionPlan(Struct, frozen=True):
    """What to summarise, what is kept, and the prompt that asks for the summary.

    Bound to the leaf it was made at: `session/compact` takes it while that is still so.
    """

    plan_id: str
    leaf_id: str
    first_kept_entry_id: str
    summarize: list[str]
    turn_prefix: list[str]
    previous_summary: str | None
    files: PlannedFiles
    tokens_before: int
    prompt: str


class PlanCompactionResult(Struct, frozen=True, omit_defaults=True):
    """The plan; null, and why, when there is nothing to do."""

    plan: CompactionPlan | None
    reason: Reason | None = None


def handle(client: Client, params: PlanCompactionParams, call: Call[Client]) -> Any:
    """Plan in a worker thread; what is appended meanwhile is not in the plan."""

    def look(host: Host) -> Any:
        leaf = head_leaf(host.opened.session, params.head)

        async def plan() -> PlanCompactionResult:
            return await to_thread.run_sync(_plan, host, params, leaf)

        return host.later(call, plan)

    return ask(client, call, params.session_id, look)


def _plan(host: Host, params: PlanCompactionParams, leaf: int) -> PlanCompactionResult:
    policies = host.environment.policies
    policy = policies.of(host.opened)
    estimator = policies.estimator(policy)
    found = plan_at(host.opened, leaf, policy, estimator, params.keep_recent_tokens)
    if not isinstance(found, Division):
        return PlanCompactionResult(None, found)
    return PlanCompactionResult(_told(host, params, leaf, found, policy.preset.marker))


def _told(
    host: Host, params: PlanCompactionParams, leaf: int, found: Division, marker: str
) -> CompactionPlan:
    parts, past = found.parts, found.past
    tokens = host.estimates.find(leaf)
    leaf_id = host.opened.session.names[leaf]
    ref = PlanRef(params.session_id, params.head, leaf_id, parts.first_kept.id, tokens)
    plan_id = encode_plan_id(ref)
    host.plan_files.put(plan_id, parts.files)
    material = Material(
        [*past.messages, *_readings(parts.history)],
        _readings(parts.turn_prefix),
        past.summary,
        parts.files,
        marker,
        params.instructions,
    )
    plan = CompactionPlan(
        plan_id=plan_id,
        leaf_id=leaf_id,
        first_kept_entry_id=parts.first_kept.id,
        summarize=[*([past.id] if past.messages else []), *(step.id for step in parts.history)],
        turn_prefix=[step.id for step in parts.turn_prefix],
        previous_summary=past.summary,
        files=PlannedFiles(parts.files.read, parts.files.modified),
        tokens_before=tokens,
        prompt=compaction_prompt(material),
    )
    require_result_fits(len(encode(plan)))
    return plan


def _readings(steps: list[Step]) -> list[Reading]:
    return [step.reading for step in steps if step.reading is not None]


METHOD = Method(
    name="session/plan_compaction",
    params=PlanCompactionParams,
    result=PlanCompactionResult,
    handle=handle,
    errors=(HeadNotFound,),
)
