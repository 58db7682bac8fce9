"""session/purge: remove a deleted session from the trash, for good."""

from __future__ import annotations

from typing import Any

from sessiond.errors import Overloaded, SessiondError, SessionNotFound
from sessiond.limits import RETRY_AFTER_MS
from sessiond.methods.common import DEFERRED, Call, Client, Empty, Method, SessionParams
from sessiond.service.files.keeping import still_there
from sessiond.service.host import Host
from sessiond.service.opened import Opened
from sessiond.service.retirement import Retirement

__all__ = ["METHOD"]


def handle(client: Client, params: SessionParams, call: Call[Client]) -> Any:
    """Refuse, or take the session's turn, at once: a delete that comes behind is not meant."""
    session_id = params.session_id
    host = client.service.find(session_id)
    if host is None:
        client.service.work(call, _purge(client, session_id).outcome)
    elif host.is_open:
        raise still_there(session_id)
    else:
        client.service.work(call, lambda: _purge_behind(client, host))
    return DEFERRED


async def _purge_behind(client: Client, host: Host) -> Empty:
    """Once it is clear that there was nothing to open."""
    session_id = host.session_id
    try:
        await host.ready()
    except SessionNotFound:
        await host.released.wait()
    except SessiondError as damaged:
        raise still_there(session_id) from damaged
    else:
        raise still_there(session_id)
    if not client.service.hosts.is_free(session_id):
        raise Overloaded("the session is somebody else's by now", retry_after_ms=RETRY_AFTER_MS)
    empty: Empty = await _purge(client, session_id).outcome()
    return empty


def _purge(client: Client, session_id: str) -> Retirement:
    def purge(_opened: Opened | None) -> Empty:
        client.service.store.keeping.purge(session_id)
        client.service.store.texts.purge(session_id)
        return Empty()

    return client.service.hosts.retire(session_id, "purged", purge)


METHOD = Method(
    name="session/purge", params=SessionParams, result=Empty, handle=handle, access="write"
)
