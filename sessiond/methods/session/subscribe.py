"""session/subscribe: receive every entry of a session from a point on as events, and its signals."""

from __future__ import annotations

from typing import Any

from sessiond.errors import PermissionDenied
from sessiond.methods._shared.common import SessionParams, ask
from sessiond.model.ids import HeadName
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.actor import SessionActor
from sessiond.service.client import After, Client, Subscribed
from sessiond.service.pubsub.subscription import Variant


class SubscribeParams(SessionParams):
    """Start and filter of the events; `bodies: false` sends ids instead of entries.

    `signals` adds what is stored nowhere: signals and presence. Its default is the value of `bodies`: a
    subscriber without content gets no signals either.
    """

    after: After | None = None
    types: list[str] | None = None
    heads: list[HeadName] | None = None
    bodies: bool = True
    signals: bool | None = None


def handle(client: Client, params: SubscribeParams, call: Call[Client]) -> Any:
    """Register in one step with the answer, so that no event falls between."""
    signals = params.bodies if params.signals is None else params.signals
    if client.access == "status" and (params.bodies or signals):
        raise PermissionDenied(
            "access status allows subscriptions with bodies false and without signals only",
            need="read",
        )
    want = Variant(
        encode=client.listener.encode,
        bodies=params.bodies,
        signals=signals,
        types=None if params.types is None else frozenset(params.types),
        heads=None if params.heads is None else frozenset(params.heads),
    )

    def begin(actor: SessionActor) -> Any:
        if client.knows_better(actor, params.after):
            # Entries to come must not get the epoch under which this client knows other ones.
            actor.opened.journal.disprove()
            return actor.ask(call, lambda: client.subscribe(actor, params.after, want))
        return client.subscribe(actor, params.after, want)

    return ask(client, call, params.session_id, begin)


METHOD = Method(
    name="session/subscribe",
    aliases=("subscribe",),
    params=SubscribeParams,
    result=Subscribed,
    handle=handle,
    access="status",
)
