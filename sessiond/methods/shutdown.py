"""shutdown: accept the LSP request before `exit`; the daemon keeps serving its other clients."""

from __future__ import annotations

from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.rpc.params import Params
from sessiond.service.client import Client


def handle(_client: Client, _params: Params, _call: Call[Client]) -> None:
    """Answer null; server/stop is the method that ends the daemon."""


METHOD = Method(name="shutdown", params=Params, result=None, handle=handle, access="status")
