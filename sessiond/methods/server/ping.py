"""server/ping: check that the daemon answers."""

from __future__ import annotations

from msgspec import Struct

from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.rpc.params import Params
from sessiond.service.client import Client


class PingResult(Struct, frozen=True):
    """Answer of a live daemon; `instance_id` changes with every start."""

    ok: bool
    instance_id: str
    draining: bool


def handle(client: Client, _params: Params, _call: Call[Client]) -> PingResult:
    """Answer at once, independent of all sessions."""
    return PingResult(True, client.service.instance_id, client.service.draining)  # noqa: FBT003 - the field is named ok


METHOD = Method(
    name="server/ping", params=Params, result=PingResult, handle=handle, access="status"
)
