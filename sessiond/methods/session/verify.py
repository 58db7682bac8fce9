"""session/verify: find damage in a session's file on disk."""

from __future__ import annotations

from typing import Any

from anyio import to_thread

from sessiond.methods._shared.common import SessionParams
from sessiond.model.deferred import DEFERRED
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.actor import SessionActor
from sessiond.service.client import Client
from sessiond.service.log.open_session import OpenSession
from sessiond.service.store.checks import Verification


def handle(client: Client, params: SessionParams, call: Call[Client]) -> Any:
    """Read in a worker thread; the file of a session that is not open is read without opening it."""
    store = client.service.store

    async def verify(opened: OpenSession | None = None) -> Verification:
        return await to_thread.run_sync(store.verify, params.session_id, opened, call.progress)

    def look(actor: SessionActor) -> Any:
        return actor.later(call, lambda: verify(actor.opened))

    actor = client.service.find(params.session_id)
    if actor is not None:
        return actor.ask_of_the_file(call, lambda: look(actor))
    client.service.work(call, verify)
    return DEFERRED


METHOD = Method(
    name="session/verify", params=SessionParams, result=Verification, handle=handle, access="read"
)
