"""session/stats: count what a session and the path of a head contain."""

from __future__ import annotations

from collections import Counter
from typing import Any

from anyio import to_thread
from msgspec import Struct

from sessiond.errors import HeadNotFound
from sessiond.methods._shared.common import SessionParams, ask
from sessiond.methods._shared.place import head_leaf
from sessiond.model.ids import MAIN, HeadName
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.actor import SessionActor
from sessiond.service.client import Client
from sessiond.service.log.session_info import HeadInfo, head_infos
from sessiond.service.log.statistics import SessionFigures, statistics
from sessiond.session.tree import count_leaves


class StatsParams(SessionParams):
    """Head whose path is counted beside the whole session."""

    head: HeadName = MAIN


class QueueCounts(Struct, frozen=True):
    """Prompts that wait for a session's agent, by kind. `other` counts the kinds that clients made up."""

    steer: int
    follow_up: int
    other: int
    total: int


class StatsResult(Struct, frozen=True):
    """Figures of the whole session and of the path of the head, as of `seq`.

    `branches` counts the leaves of the tree. `context_tokens` is the estimate of session/usage.
    `queue` counts the prompts that wait for the session's agent.
    """

    seq: int
    leaf_id: str | None
    heads: list[HeadInfo]
    branches: int
    context_tokens: int
    queue: QueueCounts
    whole: SessionFigures
    path: SessionFigures


def handle(client: Client, params: StatsParams, call: Call[Client]) -> Any:
    """Read the entries that exist now, in a worker thread."""

    def look(actor: SessionActor) -> Any:
        opened = actor.opened
        leaf, upto = head_leaf(opened.session, params.head), actor.seq
        heads = head_infos(opened.session)
        tools = actor.environment.policies.of(opened).preset.files

        def work(queue: QueueCounts) -> StatsResult:
            whole, path = statistics(opened, leaf, upto, tools, call.progress)
            return StatsResult(
                seq=upto,
                leaf_id=opened.session.id_of(leaf),
                heads=heads,
                branches=count_leaves(opened.session, upto),
                context_tokens=actor.estimates.find(leaf),
                queue=queue,
                whole=whole,
                path=path,
            )

        async def answer() -> StatsResult:
            return await to_thread.run_sync(
                work, _counted(await client.service.queues.kinds(call, actor))
            )

        return actor.later(call, answer)

    return ask(client, call, params.session_id, look)


def _counted(kinds: Counter[str]) -> QueueCounts:
    steer, later, total = kinds["steer"], kinds["follow_up"], kinds.total()
    return QueueCounts(steer, later, total - steer - later, total)


METHOD = Method(
    name="session/stats",
    params=StatsParams,
    result=StatsResult,
    handle=handle,
    errors=(HeadNotFound,),
    access="read",
)
