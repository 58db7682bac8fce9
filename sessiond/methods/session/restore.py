"""session/restore: bring a deleted session back from the trash."""

from __future__ import annotations

from typing import Any

from sessiond.errors import SessionCorrupt, SessionExists
from sessiond.methods._shared.common import SessionParams
from sessiond.methods._shared.vacant import VacantAct, act_on_vacant
from sessiond.methods.session.get import SessionResult
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.exclusive import ExclusiveOperation
from sessiond.service.client import Client
from sessiond.service.log.open_session import OpenSession
from sessiond.service.store.refusals import exists_again


def handle(client: Client, params: SessionParams, call: Call[Client]) -> Any:
    """Refuse if a session has the id, else move the file back at once."""
    session_id = params.session_id
    act = VacantAct(
        lambda: _restore(client, session_id),
        lambda restoring: _finish(client, session_id, restoring),
        exists_again,
    )
    return act_on_vacant(client, call, session_id, act)


def _restore(client: Client, session_id: str) -> ExclusiveOperation:
    def restore(_opened: OpenSession | None) -> None:
        client.service.store.restore(session_id)

    return client.service.registry.retire(session_id, "restored", restore)


async def _finish(client: Client, session_id: str, restoring: ExclusiveOperation) -> SessionResult:
    await restoring.outcome()
    try:
        return SessionResult(await client.service.info(session_id))
    except SessionCorrupt as unreadable:
        # Else the client would take the session for one in the trash still.
        unreadable.message = f"the session was restored, and cannot be opened: {unreadable.message}"
        raise


METHOD = Method(
    name="session/restore",
    params=SessionParams,
    result=SessionResult,
    handle=handle,
    access="write",
    errors=(SessionExists,),
)
