"""catalog/subscribe: receive a notification for each change of what lists show."""

from __future__ import annotations

from msgspec import Struct

from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.rpc.params import Params
from sessiond.service.client import Client


class WatchResult(Struct, frozen=True):
    """Revision of the catalog after which changes are notified."""

    revision: int


def handle(client: Client, _params: Params, _call: Call[Client]) -> WatchResult:
    """Register the connection in one step with the answer, so that no change falls between."""
    live_catalog = client.service.live_catalog
    live_catalog.watch(client.listener)
    return WatchResult(live_catalog.revision)


METHOD = Method(
    name="catalog/subscribe", params=Params, result=WatchResult, handle=handle, access="status"
)
