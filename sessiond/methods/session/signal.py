"""session/signal: send a message to every watcher of a session, and queue a prompt if wanted."""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import UNSET, Meta, Raw, UnsetType
from msgspec.structs import replace

from sessiond.errors import (
    IdempotencyConflict,
    InvalidParams,
    SessiondError,
    SessionNotFound,
    TooLarge,
)
from sessiond.limits import SIGNAL_BYTES_MAX, SIGNAL_KIND_CHARS_MAX
from sessiond.methods._shared.common import Empty, SessionParams, ask
from sessiond.model.deferred import DEFERRED
from sessiond.model.events import Origin, SignalTold
from sessiond.model.ids import NewEntryId
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.actor import SessionActor
from sessiond.service.actor.background import run_in_background
from sessiond.service.actor.internal_commands import look_again
from sessiond.service.client import Client
from sessiond.service.log.events import notification
from sessiond.service.log.out_of_sight import out_of_sight
from sessiond.service.queues import Prompt, Queued

SignalWord = Annotated[str, Meta(min_length=1, max_length=SIGNAL_KIND_CHARS_MAX)]


_DELTA: Final = "delta"
"""Kind of a signal with a part of an answer on its way."""


class SignalParams(SessionParams):
    """Kind of the signal, a word that its receivers know, and its content.

    With `queue` the content is a prompt that waits until the session's agent takes it.
    """

    kind: SignalWord
    data: Raw | UnsetType = UNSET
    queue: bool = False
    queue_id: NewEntryId | None = None


def handle(client: Client, params: SignalParams, call: Call[Client]) -> Any:
    """Pass the signal on behind this connection's earlier mutations, which keeps their order."""
    data = Raw(b"null") if params.data is UNSET else params.data
    require_data_fits(data, SIGNAL_BYTES_MAX)
    told = SignalTold(
        params.session_id, params.kind, data, Origin(client.client_id, call.origin_id)
    )
    if params.queue:
        return _queue(client, replace(told, queue_id=params.queue_id), call)
    if params.queue_id is not None:
        raise InvalidParams(
            "queue_id is the id of a prompt that waits: send queue", path="queue_id"
        )
    body = notification("session/signal", told)

    def relay(actor: SessionActor) -> Empty:
        if told.kind == _DELTA:
            actor.hub.presence.hear(client, data, actor.opened.session.heads)
        client.signal(actor, body)
        return Empty()

    return ask(client, call, params.session_id, relay)


def _queue(client: Client, told: SignalTold, call: Call[Client]) -> Any:
    """Queue the prompt, and pass the signal on once the prompt is durable."""
    service = client.service
    # A copy: the prompt outlives the frame that holds these bytes.
    told = replace(told, data=told.data.copy())
    prompt = Prompt(told.kind, told.data, service.environment.now(), Origin(client.client_id))

    def put(actor: SessionActor) -> Any:
        if actor.is_out_of_sight:
            # Another daemon may have the entry of a prompt that was taken.
            raise out_of_sight(actor.session_id)
        queue_id = told.queue_id or service.environment.new_entry_uuid()
        created_at = actor.opened.created_at
        durable = service.queues.add(actor, queue_id, prompt)
        # The session stays open until its subscribers, at every daemon, are told.
        release = actor.retain()

        async def relay() -> Queued:
            try:
                queued = await durable()
                if not queued.duplicate:
                    if service.find(told.session_id) is not actor:
                        # What ends the session waits for the release, and the look for that end.
                        release()
                    there = await _still_there(client, actor, created_at, queue_id)
                    body = notification("session/signal", replace(told, queue_id=queue_id))
                    client.signal(there, body)
                return queued
            finally:
                release()

        # The prompt is in line: a cancelled call would not take it back.
        run_in_background(call, relay, service.environment, give_up=lambda: False)
        return DEFERRED

    return ask(client, call, told.session_id, put)


async def _still_there(
    client: Client, actor: SessionActor, created_at: str, queue_id: str
) -> SessionActor:
    """Return the actor of a durable prompt's session. Raises SessionNotFound.

    A purge removes the prompts that are older than the purge. So a prompt is safe once its session
    is there behind the write of the prompt. The prompt is withdrawn if the session was deleted.
    No other daemon purges a session that is in memory or a file.
    """
    if not actor.opened.journal.is_shared:
        return actor
    service, session_id = client.service, actor.session_id
    gone = SessionNotFound("the session was deleted", session_id=session_id)
    try:
        found = await service.opened_actor(session_id)
        await look_again(found)
        if found.opened.created_at == created_at:
            return found
    except SessionNotFound as refusal:
        gone = refusal
    except SessiondError:
        # The prompt is durable, whatever keeps the daemon from a look at the session.
        return actor
    await service.queues.withdraw(session_id, created_at, queue_id)
    raise gone


def require_data_fits(data: Raw, limit: int) -> None:
    """Raise TooLarge for content of a broadcast over its limit."""
    size = len(memoryview(data))
    if size > limit:
        raise TooLarge(f"data has at most {limit} bytes here", limit=limit, size=size)


METHOD = Method(
    name="session/signal",
    params=SignalParams,
    result=Empty | Queued,
    handle=handle,
    access="write",
    errors=(IdempotencyConflict,),
)
