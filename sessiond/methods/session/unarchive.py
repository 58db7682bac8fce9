"""session/unarchive: put an archived session back into the lists."""

from __future__ import annotations

from typing import Any

from sessiond.methods._shared.common import Empty, SessionParams, act
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.actor import SessionActor
from sessiond.service.client import Client


def handle(client: Client, params: SessionParams, call: Call[Client]) -> Any:
    """Move the file in its turn; a session that is not archived stays where it is."""

    def unarchive(actor: SessionActor) -> None:
        client.service.store.unarchive(actor.opened)

    return act(client, call, params.session_id, unarchive, "unarchived")


METHOD = Method(
    name="session/unarchive", params=SessionParams, result=Empty, handle=handle, access="write"
)
