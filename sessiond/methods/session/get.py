"""session/get: return the current fields of a session."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from sessiond.methods._shared.common import Call, Client, Method, SessionParams, ask
from sessiond.service.log.session_info import SessionInfo

__all__ = ["METHOD", "SessionResult"]


class SessionResult(Struct, frozen=True):
    """Answer that holds a session."""

    session: SessionInfo


def handle(client: Client, params: SessionParams, call: Call[Client]) -> Any:
    """Answer from the index."""
    return ask(client, call, params.session_id, lambda actor: SessionResult(actor.opened.whole()))


METHOD = Method(
    name="session/get",
    params=SessionParams,
    result=SessionResult,
    handle=handle,
    access="status",
)
