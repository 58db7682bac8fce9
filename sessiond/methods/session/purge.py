"""session/purge: remove a deleted session from the trash for good."""

from __future__ import annotations

from typing import Any

from sessiond.catalog.rows import Known
from sessiond.errors import SessionExists, SessionNotFound
from sessiond.methods._shared.common import Call, Client, Empty, Method, SessionParams
from sessiond.methods._shared.vacant import VacantAct, act_on_vacant
from sessiond.service.actor.exclusive import ExclusiveOperation
from sessiond.service.log.open_session import OpenSession
from sessiond.service.store.refusals import still_there

__all__ = ["METHOD"]


def handle(client: Client, params: SessionParams, call: Call[Client]) -> Any:
    """Refuse, or take the session's turn at once, so that a later delete is not purged."""
    session_id = params.session_id
    act = VacantAct(
        lambda: _purge(client, session_id),
        lambda purging: _finish(client, session_id, purging, call),
        still_there,
    )
    return act_on_vacant(client, call, session_id, act)


async def _finish(
    client: Client, session_id: str, purging: ExclusiveOperation, call: Call[Client]
) -> Empty:
    """Erase the catalog's row last: by then the lists have seen the delete."""
    service = client.service
    store = service.store
    # Prompts of a session that is created behind this call have later revisions.
    revision = service.states.documents.revision
    try:
        purged = await purging.outcome()
    except SessionNotFound:
        # A kill may have come behind the files and before the prompts.
        await service.queues.forget(session_id, revision)
        raise

    await service.live_catalog.ask(lambda _: store.erase(session_id, purged), call.progress)
    await service.queues.forget(session_id, revision)
    store.purged(session_id)
    return Empty()


def _purge(client: Client, session_id: str) -> ExclusiveOperation:
    def purge(_opened: OpenSession | None) -> Known | None:
        return client.service.store.purge(session_id)

    return client.service.registry.retire(session_id, "purged", purge)


METHOD = Method(
    name="session/purge",
    params=SessionParams,
    result=Empty,
    handle=handle,
    access="write",
    errors=(SessionExists,),
)
