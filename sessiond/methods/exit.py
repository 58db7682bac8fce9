"""exit: close this connection once its earlier requests are answered."""

from __future__ import annotations

from sessiond.methods._shared.common import Call, Client, Method, Params

__all__ = ["METHOD"]


def handle(client: Client, _params: Params, _call: Call[Client]) -> None:
    """Read no more from this connection."""
    client.listener.close()


METHOD = Method(name="exit", params=Params, result=None, handle=handle, access="status")
