"""session/close: end this connection's use of a session."""

from __future__ import annotations

from typing import Any

from sessiond.methods._shared.common import Empty, SessionParams, ask
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.actor import SessionActor
from sessiond.service.client import Client


def handle(client: Client, params: SessionParams, call: Call[Client]) -> Any:
    """End subscription and presence, and unload the session if no other client uses it."""
    if client.service.find(params.session_id) is None:
        return Empty()

    def leave(actor: SessionActor) -> Empty:
        client.release(actor)
        return Empty()

    return ask(client, call, params.session_id, leave)


METHOD = Method(
    name="session/close", params=SessionParams, result=Empty, handle=handle, access="read"
)
