"""session/flush: wait until every event up to now has been handed to this connection."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from sessiond.errors import SubscriptionNotFound
from sessiond.methods._shared.common import DEFERRED, Call, Client, Method, SessionParams, ask
from sessiond.service.actor.actor import SessionActor

__all__ = ["METHOD"]


class FlushResult(Struct, frozen=True):
    """Last seq whose event lies before this answer."""

    seq: int


def handle(client: Client, params: SessionParams, call: Call[Client]) -> Any:
    """Answer at once for a live subscription, else when its replay reaches the current seq."""

    def look(actor: SessionActor) -> Any:
        seq = actor.seq
        subscription = client.subscription(params.session_id)
        if subscription.live:
            return FlushResult(seq)

        async def wait() -> FlushResult:
            await subscription.reached(seq)
            if subscription.closed:
                raise SubscriptionNotFound(
                    "the subscription ended before it reached the current seq",
                    session_id=params.session_id,
                )
            return FlushResult(seq)

        # The call waits for its own connection only: it keeps neither the session open nor the
        # daemon from stopping.
        client.service.work(call, wait)
        return DEFERRED

    return ask(client, call, params.session_id, look)


METHOD = Method(
    name="session/flush",
    params=SessionParams,
    result=FlushResult,
    handle=handle,
    access="status",
    errors=(SubscriptionNotFound,),
)
