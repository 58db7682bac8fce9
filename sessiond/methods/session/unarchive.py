"""session/unarchive: put an archived session back into the lists."""

from __future__ import annotations

from typing import Any

from sessiond.methods._shared.common import Call, Client, Empty, Method, SessionParams, act
from sessiond.service.actor.actor import SessionActor

__all__ = ["METHOD"]


def handle(client: Client, params: SessionParams, call: Call[Client]) -> Any:
    """Move the file in its turn; a session that is not archived stays where it is."""

    def unarchive(actor: SessionActor) -> None:
        client.service.store.unarchive(actor.opened)

    return act(client, call, params.session_id, unarchive, "unarchived")


METHOD = Method(
    name="session/unarchive", params=SessionParams, result=Empty, handle=handle, access="write"
)
