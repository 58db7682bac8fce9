"""session/plan_merge: make the prompt for the text that merges two sessions; changes nothing."""

from __future__ import annotations

from typing import Any

from anyio import to_thread

from sessiond.methods._shared.common import SessionParams
from sessiond.methods._shared.copies import ask_both, require_two
from sessiond.model.ids import SessionId
from sessiond.model.plans import PlanMergeResult
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.actor import SessionActor
from sessiond.service.client import Client
from sessiond.service.copying.merging import merge_plan
from sessiond.service.copying.source import Source


class PlanMergeParams(SessionParams):
    """Session that is merged with this one."""

    other_session_id: SessionId


def handle(client: Client, params: PlanMergeParams, call: Call[Client]) -> Any:
    """Read both sessions in a worker thread, each in its current state."""
    require_two(params.session_id, params.other_session_id)

    def look(actor: SessionActor, _other: SessionActor) -> Any:
        here = Source.of(actor)

        async def job() -> PlanMergeResult:
            other = await client.service.opened_actor(params.other_session_id)
            release = other.retain()
            try:
                sources = [here, Source.of(other)]
                return await to_thread.run_sync(merge_plan, sources)
            finally:
                release()

        return actor.later(call, job)

    return ask_both(client, call, params.session_id, params.other_session_id, look)


METHOD = Method(
    name="session/plan_merge",
    params=PlanMergeParams,
    result=PlanMergeResult,
    handle=handle,
    access="read",
)
