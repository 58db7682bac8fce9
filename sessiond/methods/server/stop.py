"""server/stop: stop the daemon as SIGTERM does."""

from __future__ import annotations

from sessiond.methods._shared.common import Empty
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.rpc.params import Params
from sessiond.service.client import Client


def handle(client: Client, _params: Params, _call: Call[Client]) -> Empty:
    """Answer, then serve the earlier requests, flush, and exit."""
    client.service.request_stop()
    return Empty()


METHOD = Method(name="server/stop", params=Params, result=Empty, handle=handle, access="write")
