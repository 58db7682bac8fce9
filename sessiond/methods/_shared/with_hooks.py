"""Hooks of clients before a call takes effect.

Law: without a client that offered the hook the call goes on at once, in the order of the wire. With
such a client the call takes effect when all of them have answered or run out of time; later requests
do not wait for the call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from msgspec import Struct

from sessiond.errors import EntryNotFound
from sessiond.methods._shared.common import ask
from sessiond.model.deferred import DEFERRED
from sessiond.model.requests import BeforeBranch, Hook, HookAnswer
from sessiond.rpc.calls import Call
from sessiond.service.actor.actor import SessionActor
from sessiond.service.client import Client

_NOTHING: Final = HookAnswer()


def hooked(  # noqa: PLR0913 - the call with its hook and its continuation
    client: Client,
    call: Call[Client],
    session_id: str,
    hook: Hook,
    *,
    about: Callable[[SessionActor], Struct | Awaitable[Struct | None]],
    go_on: Callable[[HookAnswer], Any],
) -> Any:
    """Go on with what clients supplied, if one did, or refuse the call as Vetoed.

    `about` returns the notice for the clients, from the session's state at that time. A notice that
    needs a read of the file is awaited; None means that no client need be asked. `go_on` returns
    DEFERRED or a result.
    """
    if not client.service.hooks.wanted(hook):
        return go_on(_NOTHING)

    def look(actor: SessionActor) -> Any:
        return consulted(client, call, hook, about(actor), go_on)

    return ask(client, call, session_id, look)


def consulted(
    client: Client,
    call: Call[Client],
    hook: Hook,
    about: Struct | Awaitable[Struct | None],
    go_on: Callable[[HookAnswer], Any],
) -> Any:
    """Ask the clients that offered the hook in a task; then go on, or refuse the call as Vetoed."""

    async def consult() -> Any:
        told = await about if isinstance(about, Awaitable) else about
        supplied = _NOTHING if told is None else await client.service.hooks.before(hook, told)
        return go_on(supplied)

    client.service.work(call, consult)
    return DEFERRED


def branch_notice(actor: SessionActor, head: str, entry_id: str | None) -> BeforeBranch:
    """Return the notice that a head goes to an entry. Raise EntryNotFound."""
    session = actor.opened.session
    if entry_id is not None and not session.node(entry_id):
        raise EntryNotFound("no entry of this id in the tree", entry_id=entry_id, path="entry_id")
    at = session.heads.get(head)
    leaf_id = None if at is None else session.id_of(at.leaf)
    return BeforeBranch(actor.session_id, head, leaf_id, entry_id)
