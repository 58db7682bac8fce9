"""initialized: an LSP-shaped client's word that it has read the answer to `initialize`."""

from __future__ import annotations

from sessiond.methods.common import Call, Client, Method, Params

__all__ = ["METHOD"]


class InitializedParams(Params, forbid_unknown_fields=False):
    """Anything."""


def handle(_client: Client, _params: InitializedParams, _call: Call[Client]) -> None:
    """Nothing follows from it."""


METHOD = Method(
    name="initialized",
    params=InitializedParams,
    result=None,
    handle=handle,
    access="status",
    lenient=True,
)
