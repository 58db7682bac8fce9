"""session/flush: wait until every event up to now was handed to this connection, or until all is on disk."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from sessiond.errors import SubscriptionNotFound
from sessiond.methods._shared.common import SessionParams, ask
from sessiond.model.deferred import DEFERRED
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.actor import SessionActor
from sessiond.service.actor.inbox import Command
from sessiond.service.client import Client
from sessiond.service.pubsub.subscription import Subscription
from sessiond.session.draft import Draft, read_only


class FlushParams(SessionParams):
    """A session, and whether all of its entries up to now are to be made durable."""

    durability: Literal["disk"] | None = None


class FlushResult(Struct, frozen=True, omit_defaults=True):
    """Last seq whose event lies before this answer; how durable everything up to it is, if asked."""

    seq: int
    durability: Literal["disk", "memory"] | UnsetType = UNSET


def handle(client: Client, params: FlushParams, call: Call[Client]) -> Any:
    """Answer when the events, and with `durability` the entries, up to the current seq are there."""
    session_id = params.session_id
    if params.durability is None:

        def look(actor: SessionActor) -> Any:
            subscription = client.subscription(session_id)
            return _handed_over(client, call, session_id, subscription, FlushResult(actor.seq))

        return ask(client, call, session_id, look)

    def finish(point: FlushResult, durability: str) -> Any:
        # What stands before the call is on disk: the call had its batch synced, or found nothing to
        # sync. `durability` also speaks of entries behind the call, which may be in memory only.
        result = FlushResult(point.seq, "memory" if durability == "memory" else "disk")
        watched = client.subscriptions.get(session_id)
        if watched is None or watched[1].closed:
            return result
        return _handed_over(client, call, session_id, watched[1], result)

    command = Command(call, finish, _stand_here, entries=0)
    return client.service.actor(session_id).submit(command)


def _stand_here(draft: Draft) -> FlushResult:
    """Return the last line before the call, which the batch of the call makes durable.

    Raises SessionReadOnly for a file that sessiond never syncs.
    """
    if draft.unwritable == "other_agent":
        raise read_only("other_agent")
    return FlushResult(draft.seq)


def _handed_over(
    client: Client,
    call: Call[Client],
    session_id: str,
    subscription: Subscription,
    result: FlushResult,
) -> Any:
    """Answer at once for a live subscription, else when its replay reaches the seq of the result."""
    if subscription.live:
        return result

    async def wait() -> FlushResult:
        await subscription.reached(result.seq)
        if subscription.closed and isinstance(result.durability, UnsetType):
            raise SubscriptionNotFound(
                "the subscription ended before it reached the current seq",
                session_id=session_id,
            )
        return result

    # The call waits for its own connection only: it keeps neither the session open nor the
    # daemon from stopping.
    client.service.work(call, wait)
    return DEFERRED


METHOD = Method(
    name="session/flush",
    params=FlushParams,
    result=FlushResult,
    handle=handle,
    access="status",
    errors=(SubscriptionNotFound,),
)
