"""session/forget: remove a session whose file lies outside the profile from the catalog."""

from __future__ import annotations

from typing import Any

from sessiond.methods._shared.common import Empty, SessionParams
from sessiond.model.deferred import DEFERRED
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.exclusive import ExclusiveOperation
from sessiond.service.client import Client
from sessiond.service.log.open_session import OpenSession
from sessiond.service.store.refusals import lies_inside


def handle(client: Client, params: SessionParams, call: Call[Client]) -> Any:
    """Close the session, then remove its record from the catalog; its file is not touched."""
    session_id = params.session_id
    actor = client.service.find(session_id)
    if actor is not None and actor.is_open and not actor.opened.elsewhere:
        raise lies_inside()
    retirement = client.service.registry.retire(
        session_id, "forgotten", lambda opened: _forget(client, session_id, opened)
    )
    client.service.work(call, lambda: _finish(client, session_id, retirement))
    return DEFERRED


def _forget(client: Client, session_id: str, opened: OpenSession | None) -> None:
    if opened is not None and not opened.elsewhere:
        raise lies_inside()
    client.service.store.forget(session_id)


async def _finish(client: Client, session_id: str, retirement: ExclusiveOperation) -> Empty:
    await retirement.outcome()
    await client.service.live_catalog.forget(session_id)
    return Empty()


METHOD = Method(
    name="session/forget",
    params=SessionParams,
    result=Empty,
    handle=handle,
    access="write",
)
