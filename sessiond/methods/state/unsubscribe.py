"""state/unsubscribe: stop the notifications of state/subscribe."""

from __future__ import annotations

from sessiond.errors import Draining
from sessiond.methods._shared.common import Empty
from sessiond.model.ids import Namespace
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.rpc.params import Params
from sessiond.service.client import Client


class StateUnsubscribeParams(Params):
    """Namespace; without it, every subscription of the connection on the store ends."""

    namespace: Namespace | None = None


def handle(client: Client, params: StateUnsubscribeParams, _call: Call[Client]) -> Empty:
    """Remove the connection from the feed; a repeated call changes nothing."""
    client.service.states.feed.remove(client.listener, params.namespace)
    return Empty()


METHOD = Method(
    name="state/unsubscribe",
    params=StateUnsubscribeParams,
    result=Empty,
    handle=handle,
    errors=(Draining,),
)
