"""session/purge: remove a deleted session from the trash for good."""

from __future__ import annotations

from typing import Any

from sessiond.catalog.catalog import Catalog
from sessiond.catalog.rows import Known
from sessiond.errors import SessionExists, SessionNotFound
from sessiond.methods._shared.common import Call, Client, Empty, Method, SessionParams
from sessiond.methods._shared.vacant import VacantAct, act_on_vacant
from sessiond.service.actor.exclusive import ExclusiveOperation
from sessiond.service.files.locations import still_there
from sessiond.service.log.open_session import OpenSession

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

    def erase(catalog: Catalog) -> None:
        catalog.erase(session_id)
        if purged is not None:
            store.records.drop_gone(purged)

    await service.live_catalog.ask(erase, call.progress)
    await service.queues.forget(session_id, revision)
    store.session_files.trash.purged(session_id)
    return Empty()


def _purge(client: Client, session_id: str) -> ExclusiveOperation:
    def purge(_opened: OpenSession | None) -> Known | None:
        store = client.service.store
        # The search text goes first: while the files exist a failed purge can be repeated, also
        # by a later daemon.
        store.session_files.require_deleted(session_id)
        store.texts.purge(session_id)
        store.session_files.purge(session_id)
        return store.records.known(session_id)

    return client.service.registry.retire(session_id, "purged", purge)


METHOD = Method(
    name="session/purge",
    params=SessionParams,
    result=Empty,
    handle=handle,
    access="write",
    errors=(SessionExists,),
)
