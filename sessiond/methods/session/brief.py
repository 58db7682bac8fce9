"""session/brief: return a short text for a system prompt, and what a client needs to go on."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from sessiond.methods._shared.common import SessionParams, ask
from sessiond.methods._shared.forks import fork_count
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.actor import SessionActor
from sessiond.service.client import Client
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.state_info import StateInfo, brief_of, state_of


class Brief(Struct, frozen=True):
    """Beginning of a resumed turn: the id to resume, a text for the model, the state."""

    session_id: str
    resume: str
    context: str
    state: StateInfo
    model: str | None


class BriefResult(Brief, frozen=True):
    """Brief, and the number of forks of the session; null if the catalog cannot be read."""

    fork_count: int | None


def brief(opened: OpenSession) -> Brief:
    """Return the brief of a session as it is now."""
    state = state_of(opened)
    session_id = opened.session_id
    return Brief(session_id, session_id, brief_of(session_id, state), state, state.model)


def handle(client: Client, params: SessionParams, call: Call[Client]) -> Any:
    """Answer from the index, and count the forks in a worker thread."""

    def look(actor: SessionActor) -> Any:
        made = brief(actor.opened)

        async def job() -> BriefResult:
            forks = await fork_count(client, call, made.session_id)
            return BriefResult(
                made.session_id, made.resume, made.context, made.state, made.model, forks
            )

        return actor.later(call, job)

    return ask(client, call, params.session_id, look)


METHOD = Method(
    name="session/brief",
    params=SessionParams,
    result=BriefResult,
    handle=handle,
    access="read",
)
