"""session/purge: remove a deleted session from the trash, for good."""

from __future__ import annotations

from typing import Any

from sessiond.errors import SessiondError
from sessiond.methods.common import DEFERRED, Call, Client, Empty, Method, SessionParams
from sessiond.service.files.keeping import still_there
from sessiond.service.opened import Opened
from sessiond.service.retirement import Retirement

__all__ = ["METHOD"]


def handle(client: Client, params: SessionParams, call: Call[Client]) -> Any:
    """Take the session's turn at once if nobody has it, so that what follows comes after."""
    if client.service.find(params.session_id) is None:
        client.service.work(call, _purge(client, params.session_id).outcome)
    else:
        client.service.work(call, lambda: _purge_unless_open(client, params.session_id))
    return DEFERRED


async def _purge_unless_open(client: Client, session_id: str) -> Empty:
    while (host := client.service.find(session_id)) is not None:
        try:
            await host.ready()
        except SessiondError:
            # It leaves at the next step; whether there is a file is for the act to see.
            await host.released.wait()
        else:
            raise still_there(session_id)
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
