"""session/forget: remove a session whose file lies outside the profile from the catalog."""

from __future__ import annotations

from typing import Any

from sessiond.methods._shared.common import DEFERRED, Call, Client, Empty, Method, SessionParams
from sessiond.service.actor.exclusive import Retirement
from sessiond.service.files.locations import lies_inside
from sessiond.service.log.open_session import Opened

__all__ = ["METHOD"]


def handle(client: Client, params: SessionParams, call: Call[Client]) -> Any:
    """Close the session, then remove its record from the catalog; its file is not touched."""
    session_id = params.session_id
    host = client.service.find(session_id)
    if host is not None and host.is_open and not host.opened.elsewhere:
        raise lies_inside()
    retirement = client.service.hosts.retire(
        session_id, "forgotten", lambda opened: _forget(client, session_id, opened)
    )
    client.service.work(call, lambda: _finish(client, session_id, retirement))
    return DEFERRED


def _forget(client: Client, session_id: str, opened: Opened | None) -> None:
    if opened is not None and not opened.elsewhere:
        raise lies_inside()
    store = client.service.store
    store.keeping.require_elsewhere(session_id)
    store.texts.purge(session_id)


async def _finish(client: Client, session_id: str, retirement: Retirement) -> Empty:
    await retirement.outcome()
    await client.service.roster.forget(session_id)
    return Empty()


METHOD = Method(
    name="session/forget",
    params=SessionParams,
    result=Empty,
    handle=handle,
    access="write",
)
