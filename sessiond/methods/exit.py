"""exit: close this connection once its earlier requests are answered."""

from __future__ import annotations

from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.rpc.params import Params
from sessiond.service.client import Client


def handle(client: Client, _params: Params, _call: Call[Client]) -> None:
    """Read no more from this connection."""
    client.listener.close()


METHOD = Method(name="exit", params=Params, result=None, handle=handle, access="status")
