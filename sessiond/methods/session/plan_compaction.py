"""session/plan_compaction: plan a compaction, with a prompt ready for a model; changes nothing."""

from __future__ import annotations

from typing import Annotated, Any

from anyio import to_thread
from msgspec import Meta, Struct

from sessiond.errors import HeadNotFound
from sessiond.limits import INSTRUCTIONS_CHARS_MAX
from sessiond.methods._shared.common import SessionParams, ask, encode, require_result_fits
from sessiond.methods._shared.place import head_leaf
from sessiond.model.ids import MAIN, HeadName
from sessiond.model.plans import CompactionPlan
from sessiond.model.settings import Tokens
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.actor import SessionActor
from sessiond.service.client import Client
from sessiond.service.compaction.plan import PlanRequest, make_plan
from sessiond.session.compaction.cut_point import Reason


class PlanCompactionParams(SessionParams):
    """Head; number of newest tokens to keep; what the summary must focus on."""

    head: HeadName = MAIN
    keep_recent_tokens: Tokens | None = None
    instructions: Annotated[str, Meta(max_length=INSTRUCTIONS_CHARS_MAX)] | None = None


class PlanCompactionResult(Struct, frozen=True, omit_defaults=True):
    """Plan; null, with the reason, if there is nothing to compact."""

    plan: CompactionPlan | None
    reason: Reason | None = None


def handle(client: Client, params: PlanCompactionParams, call: Call[Client]) -> Any:
    """Plan in a worker thread; entries appended meanwhile are not in the plan."""

    def look(actor: SessionActor) -> Any:
        leaf = head_leaf(actor.opened.session, params.head)

        async def plan() -> PlanCompactionResult:
            return await to_thread.run_sync(_plan, actor, params, leaf)

        return actor.later(call, plan)

    return ask(client, call, params.session_id, look)


def _plan(actor: SessionActor, params: PlanCompactionParams, leaf: int) -> PlanCompactionResult:
    wish = PlanRequest(params.head, params.keep_recent_tokens, params.instructions)
    found = make_plan(actor, leaf, wish)
    if not isinstance(found, CompactionPlan):
        return PlanCompactionResult(None, found)
    require_result_fits(len(encode(found)))
    return PlanCompactionResult(found)


METHOD = Method(
    name="session/plan_compaction",
    params=PlanCompactionParams,
    result=PlanCompactionResult,
    handle=handle,
    errors=(HeadNotFound,),
)
