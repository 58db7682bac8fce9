"""session/purge: remove a deleted session from the trash for good."""

from __future__ import annotations

from typing import Any

from sessiond.catalog.rows import Known
from sessiond.errors import SessionExists, SessionNotFound
from sessiond.methods._shared.common import Empty, SessionParams
from sessiond.methods._shared.vacant import VacantAct, act_on_vacant
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.exclusive import ExclusiveOperation
from sessiond.service.client import Client
from sessiond.service.log.open_session import OpenSession
from sessiond.service.store.refusals import still_there
from sessiond.service.store.session_store import SessionStore
from sessiond.state.documents import Documents


def handle(client: Client, params: SessionParams, call: Call[Client]) -> Any:
    """Refuse, or take the session's turn at once, so that a later delete is not purged."""
    session_id = params.session_id
    purge = _Purge(client.service.store, client.service.states.documents, session_id)
    act = VacantAct(
        lambda: client.service.registry.retire(session_id, "purged", purge),
        lambda purging: _finish(client, purge, purging, call),
        still_there,
    )
    return act_on_vacant(client, call, session_id, act)


class _Purge:
    """Removal of one session from the trash, in a worker thread."""

    def __init__(self, store: SessionStore, documents: Documents, session_id: str) -> None:
        self.session_id = session_id
        self.revision = 0
        """Revision that all prompts of the session have, at most."""
        self._store = store
        self._documents = documents

    def __call__(self, _opened: OpenSession | None) -> Known | None:
        """Remove the session. Raises SessionExists, SessionNotFound, StorageError."""
        # While the id is taken: prompts of a later session of the id have later revisions.
        self.revision = self._documents.newest_revision()
        return self._store.purge(self.session_id)


async def _finish(
    client: Client, purge: _Purge, purging: ExclusiveOperation, call: Call[Client]
) -> Empty:
    """Erase the catalog's row last: by then the lists have seen the delete."""
    service, session_id = client.service, purge.session_id
    store = service.store
    try:
        purged = await purging.outcome()
    except SessionNotFound:
        # A kill may have come behind the files and before the prompts.
        await service.queues.forget(session_id, purge.revision)
        raise

    await service.live_catalog.ask(lambda _: store.erase(session_id, purged), call)
    await service.queues.forget(session_id, purge.revision)
    store.purged(session_id)
    return Empty()


METHOD = Method(
    name="session/purge",
    params=SessionParams,
    result=Empty,
    handle=handle,
    access="write",
    errors=(SessionExists,),
)
