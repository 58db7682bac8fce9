"""session/queue: list the prompts that wait for a session's agent, and remove some."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from sessiond.limits import QUEUE_DONE_MAX
from sessiond.methods._shared.access import require_access
from sessiond.methods._shared.common import SessionParams, ask
from sessiond.model.ids import NewEntryId
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.actor import SessionActor
from sessiond.service.client import Client
from sessiond.service.queues import WaitingPrompt

Done = Annotated[tuple[NewEntryId, ...], Meta(max_length=QUEUE_DONE_MAX)]


class QueueParams(SessionParams):
    """Prompts to remove although no entry was appended with their ids."""

    done: Done = ()


class QueueResult(Struct, frozen=True):
    """Prompts that wait, in the order in which to take them: those to steer by first."""

    waiting: list[WaitingPrompt]


def handle(client: Client, params: QueueParams, call: Call[Client]) -> Any:
    """Remove, then answer with the rest, behind this connection's earlier appends."""
    queues = client.service.queues
    if params.done:
        require_access(client, "write")

    def look(actor: SessionActor) -> Any:
        return queues.waiting(call, actor, params.done, QueueResult)

    return ask(client, call, params.session_id, look)


METHOD = Method(
    name="session/queue",
    params=QueueParams,
    result=QueueResult,
    handle=handle,
    access="read",
)
