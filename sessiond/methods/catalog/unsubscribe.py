"""catalog/unsubscribe: stop the notifications of catalog/subscribe."""

from __future__ import annotations

from sessiond.methods._shared.common import Empty
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.rpc.params import Params
from sessiond.service.client import Client


def handle(client: Client, _params: Params, _call: Call[Client]) -> Empty:
    """Remove the connection from the feed; a repeated call changes nothing."""
    client.service.live_catalog.feed.remove(client.listener)
    return Empty()


METHOD = Method(
    name="catalog/unsubscribe", params=Params, result=Empty, handle=handle, access="status"
)
