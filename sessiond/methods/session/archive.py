"""session/archive: take a session out of the lists and close it to changes; reads still work."""

from __future__ import annotations

from typing import Any

from sessiond.methods._shared.common import Empty, SessionParams, act
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.actor import SessionActor
from sessiond.service.client import Client


def handle(client: Client, params: SessionParams, call: Call[Client]) -> Any:
    """Move the file in its turn: earlier mutations are stored, later mutations are refused."""

    def archive(actor: SessionActor) -> None:
        client.service.store.archive(actor.opened)

    return act(client, call, params.session_id, archive, "archived")


METHOD = Method(
    name="session/archive", params=SessionParams, result=Empty, handle=handle, access="write"
)
