"""session/purge: remove a deleted session from the trash, for good."""

from __future__ import annotations

from typing import Any

from sessiond.errors import Overloaded, SessiondError, SessionExists, SessionNotFound
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
        purging = _purge(client, session_id)
        client.service.work(call, lambda: _finish(client, purging, call))
    elif host.is_open:
        raise still_there(session_id)
    else:
        client.service.work(call, lambda: _purge_behind(client, host, call))
    return DEFERRED


async def _purge_behind(client: Client, host: Host, call: Call[Client]) -> Empty:
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
    return await _finish(client, _purge(client, session_id), call)


async def _finish(client: Client, purging: Retirement, call: Call[Client]) -> Empty:
    """What lists knew of it goes last: only then have they seen that it was deleted."""
    session_id: str = await purging.outcome()
    await client.service.roster.ask(lambda catalog: catalog.erase(session_id), call.progress)
    client.service.store.keeping.trash.purged(session_id)
    return Empty()


def _purge(client: Client, session_id: str) -> Retirement:
    def purge(_opened: Opened | None) -> str:
        store = client.service.store
        # The words first: as long as the files are there, one that failed is repeated, also by
        # a daemon that knows nothing of it.
        store.keeping.require_deleted(session_id)
        store.texts.purge(session_id)
        store.keeping.purge(session_id)
        return session_id

    return client.service.hosts.retire(session_id, "purged", purge)


METHOD = Method(
    name="session/purge",
    params=SessionParams,
    result=Empty,
    handle=handle,
    access="write",
    errors=(SessionExists,),
)
