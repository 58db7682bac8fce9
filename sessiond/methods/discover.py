"""rpc.discover: what this daemon speaks, as an OpenRPC document."""

from __future__ import annotations

from typing import Any

from anyio import to_thread
from msgspec import Raw

from sessiond.methods.common import DEFERRED, Call, Client, Method, Params

__all__ = ["METHOD"]


def handle(client: Client, _params: Params, call: Call[Client]) -> Any:
    """Describe in a worker thread: the first time, the document is still to be made."""
    describe = client.service.environment.describe
    client.service.work(call, lambda: to_thread.run_sync(describe))
    return DEFERRED


METHOD = Method(name="rpc.discover", params=Params, result=Raw, handle=handle, access="read")
