"""session/unsubscribe: end this connection's events of a session."""

from __future__ import annotations

from typing import Any

from sessiond.errors import SubscriptionNotFound
from sessiond.methods._shared.common import Empty, SessionParams
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.client import Client


def handle(client: Client, params: SessionParams, _call: Call[Client]) -> Any:
    """End this connection's subscription."""
    client.unsubscribe(params.session_id)
    return Empty()


METHOD = Method(
    name="session/unsubscribe",
    aliases=("unsubscribe",),
    params=SessionParams,
    result=Empty,
    handle=handle,
    access="status",
    errors=(SubscriptionNotFound,),
)
