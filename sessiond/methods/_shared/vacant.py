"""Helper of the methods on a session that has no file: restore and purge."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from sessiond.errors import (
    Overloaded,
    SessiondError,
    SessionExists,
    SessionNotFound,
    StorageError,
)
from sessiond.limits import RETRY_AFTER_MS
from sessiond.model.deferred import DEFERRED
from sessiond.rpc.calls import Call
from sessiond.service.actor.actor import SessionActor
from sessiond.service.actor.exclusive import ExclusiveOperation
from sessiond.service.actor.internal_commands import look_again
from sessiond.service.client import Client


class VacantAct(Struct, frozen=True):
    """Operation on a vacant id: its turn, its answer, and the refusal if a session exists."""

    begin: Callable[[], ExclusiveOperation]
    finish: Callable[[ExclusiveOperation], Awaitable[Any]]
    refusal: Callable[[str], SessionExists]


def act_on_vacant(client: Client, call: Call[Client], session_id: str, act: VacantAct) -> Any:
    """Refuse, or take the session's turn at once, so that later requests come behind it.

    A session that is being opened is waited for: opening may find that there is no file. So is a look at
    a session that other daemons serve too: one of them may have deleted the session.
    """
    actor = client.service.find(session_id)
    if actor is None:
        turn = act.begin()
        client.service.work(call, lambda: act.finish(turn))
    elif actor.is_open and not actor.opened.journal.is_shared:
        raise act.refusal(session_id)
    else:

        async def act_behind() -> Any:
            await _vacated(client, actor, act.refusal)
            return await act.finish(act.begin())

        client.service.work(call, act_behind)
    return DEFERRED


async def _vacated(
    client: Client, actor: SessionActor, refusal: Callable[[str], SessionExists]
) -> None:
    """Wait until opening, or a look, has found no session, or until the session is closed.

    Raise SessionExists, Overloaded, StorageError.
    """
    session_id = actor.session_id
    try:
        opened = await actor.ready()
        if opened.journal.is_shared and not actor.has_ended:
            await look_again(actor)
    except SessionNotFound:
        pass
    except StorageError:
        # Nothing is known: the store may have a session of this id, or none.
        raise
    except SessiondError as damaged:
        raise refusal(session_id) from damaged
    else:
        # The store knows of a session that was closed.
        if not actor.has_ended:
            raise refusal(session_id)
    await actor.released.wait()
    if not client.service.registry.is_free(session_id):
        raise Overloaded(
            "another request has taken the session's turn: try again",
            retry_after_ms=RETRY_AFTER_MS,
        )
