"""session/brief: a short text for a system prompt, and what a client needs to go on."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from sessiond.methods._shared.common import Call, Client, Method, SessionParams, ask
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.state_info import StateInfo, brief_of, state_of

__all__ = ["METHOD", "Brief", "brief"]


class Brief(Struct, frozen=True):
    """Beginning of a resumed turn: the id to resume, a text for the model, the state."""

    session_id: str
    resume: str
    context: str
    state: StateInfo
    model: str | None


def brief(opened: OpenSession) -> Brief:
    """Return the brief of a session as it is now."""
    state = state_of(opened)
    session_id = opened.session_id
    return Brief(session_id, session_id, brief_of(session_id, state), state, state.model)


def handle(client: Client, params: SessionParams, call: Call[Client]) -> Any:
    """Answer from the index."""
    return ask(client, call, params.session_id, lambda actor: brief(actor.opened))


METHOD = Method(
    name="session/brief",
    params=SessionParams,
    result=Brief,
    handle=handle,
    access="read",
)
