"""rpc.discover: return the protocol of this daemon as an OpenRPC document."""

from __future__ import annotations

from typing import Any

from anyio import to_thread
from msgspec import Raw

from sessiond.model.deferred import DEFERRED
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.rpc.params import Params
from sessiond.service.client import Client


def handle(client: Client, _params: Params, call: Call[Client]) -> Any:
    """Describe the protocol in a worker thread: the first call makes the document."""
    describe = client.service.environment.describe
    client.service.look(call, lambda: to_thread.run_sync(describe))
    return DEFERRED


METHOD = Method(name="rpc.discover", params=Params, result=Raw, handle=handle, access="read")
