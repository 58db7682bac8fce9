"""initialized: accept an LSP client's notice that it has read the answer to `initialize`."""

from __future__ import annotations

from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.rpc.params import Params
from sessiond.service.client import Client


class InitializedParams(Params, forbid_unknown_fields=False):
    """Any parameters."""


def handle(_client: Client, _params: InitializedParams, _call: Call[Client]) -> None:
    """Do nothing."""


METHOD = Method(
    name="initialized",
    params=InitializedParams,
    result=None,
    handle=handle,
    access="status",
    lenient=True,
)
