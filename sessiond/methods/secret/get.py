"""secret/get: return a secret, decrypted."""

from __future__ import annotations

from typing import Any

from msgspec import Raw, Struct

from sessiond.methods._shared.secret_params import SECRET_ERRORS, value_of
from sessiond.methods._shared.values import StateParams
from sessiond.model.deferred import DEFERRED
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.background import run_in_background
from sessiond.service.client import Client
from sessiond.state.document import ABSENT


class SecretGetResult(Struct, frozen=True):
    """Value of the secret; null and revision 0 for a secret that does not exist."""

    key: str
    value: Raw
    revision: int
    created_at: str | None
    updated_at: str | None


def handle(client: Client, params: StateParams, call: Call[Client]) -> Any:
    """Decrypt the secret once the key is at hand."""
    run_in_background(call, lambda: _get(client, params, call), client.service.environment)
    return DEFERRED


async def _get(client: Client, params: StateParams, call: Call[Client]) -> SecretGetResult:
    found = await client.service.secrets.get(call, params.namespace, params.key)
    record = found.record
    if record is None or found.value is None:
        return SecretGetResult(params.key, Raw(b"null"), ABSENT, None, None)
    value = value_of(found.value)
    return SecretGetResult(params.key, value, record.revision, record.created_at, record.updated_at)


METHOD = Method(
    name="secret/get",
    params=StateParams,
    result=SecretGetResult,
    handle=handle,
    access="write",
    errors=SECRET_ERRORS,
)
