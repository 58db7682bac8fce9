"""catalog/unsubscribe: be told no more of what lists show."""

from __future__ import annotations

from sessiond.methods.common import Call, Client, Empty, Method, Params

__all__ = ["METHOD"]


def handle(client: Client, _params: Params, _call: Call[Client]) -> Empty:
    """Safe to repeat."""
    client.service.roster.feed.remove(client.listener)
    return Empty()


METHOD = Method(
    name="catalog/unsubscribe", params=Params, result=Empty, handle=handle, access="status"
)
