"""session/get: return the current fields and the working state of a session."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from sessiond.methods._shared.common import SessionParams, ask
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.client import Client
from sessiond.service.log.session_info import SessionInfo
from sessiond.service.log.state_info import StateInfo, state_of


class SessionResult(Struct, frozen=True):
    """Answer that holds a session."""

    session: SessionInfo


class GetResult(SessionResult, frozen=True):
    """Session and its working state."""

    state: StateInfo


def handle(client: Client, params: SessionParams, call: Call[Client]) -> Any:
    """Answer from the index."""
    return ask(
        client,
        call,
        params.session_id,
        lambda actor: GetResult(actor.opened.whole(), state_of(actor.opened)),
    )


METHOD = Method(
    name="session/get",
    params=SessionParams,
    result=GetResult,
    handle=handle,
    access="status",
)
