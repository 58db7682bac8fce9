"""secret/rotate: encrypt all secrets with a new key."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from sessiond.methods._shared.secret_params import SECRET_ERRORS
from sessiond.model.deferred import DEFERRED
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.rpc.params import Params
from sessiond.service.client import Client


class RotateResult(Struct, frozen=True):
    """Number of the secrets that were encrypted anew, and of the keys in use."""

    secrets: int
    keys: int


def handle(client: Client, _params: Params, call: Call[Client]) -> Any:
    """Rotate to the end, even if the caller goes away."""
    client.service.work(call, lambda: _rotate(client))
    return DEFERRED


async def _rotate(client: Client) -> RotateResult:
    done = await client.service.secrets.rotate()
    return RotateResult(done.secrets, done.keys)


METHOD = Method(
    name="secret/rotate",
    params=Params,
    result=RotateResult,
    handle=handle,
    access="write",
    errors=SECRET_ERRORS,
)
