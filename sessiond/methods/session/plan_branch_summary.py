"""session/plan_branch_summary: plan the summary of the branch that a head abandons; changes nothing."""

from __future__ import annotations

from typing import Annotated, Any

from anyio import to_thread
from msgspec import Meta

from sessiond.errors import EntryNotFound, HeadNotFound
from sessiond.limits import INSTRUCTIONS_CHARS_MAX
from sessiond.methods._shared.common import SessionParams, ask, encode, require_result_fits
from sessiond.methods._shared.place import head_leaf
from sessiond.model.ids import MAIN, EntryId, HeadName
from sessiond.model.plans import PlanBranchSummaryResult
from sessiond.model.settings import Tokens
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.actor import SessionActor
from sessiond.service.client import Client
from sessiond.service.compaction.branch_summary import branch_plan


class PlanBranchSummaryParams(SessionParams):
    """Target of the move; budget in tokens for the told entries, 0 for no bound."""

    entry_id: EntryId | None
    head: HeadName = MAIN
    budget_tokens: Tokens | None = None
    instructions: Annotated[str, Meta(max_length=INSTRUCTIONS_CHARS_MAX)] | None = None


def handle(client: Client, params: PlanBranchSummaryParams, call: Call[Client]) -> Any:
    """Plan in a worker thread."""

    def look(actor: SessionActor) -> Any:
        session = actor.opened.session
        leaf = head_leaf(session, params.head)
        target = 0 if params.entry_id is None else session.node(params.entry_id)
        if params.entry_id is not None and not target:
            raise EntryNotFound(
                "no entry of this id in the tree", entry_id=params.entry_id, path="entry_id"
            )

        async def plan() -> PlanBranchSummaryResult:
            return await to_thread.run_sync(_plan, actor, params, leaf, target)

        return actor.later(call, plan)

    return ask(client, call, params.session_id, look)


def _plan(
    actor: SessionActor, params: PlanBranchSummaryParams, leaf: int, target: int
) -> PlanBranchSummaryResult:
    places, policies = (leaf, target), actor.environment.policies
    result = branch_plan(actor.opened, policies, places, params.instructions, params.budget_tokens)
    require_result_fits(len(encode(result)))
    return result


METHOD = Method(
    name="session/plan_branch_summary",
    params=PlanBranchSummaryParams,
    result=PlanBranchSummaryResult,
    handle=handle,
    errors=(EntryNotFound, HeadNotFound),
)
