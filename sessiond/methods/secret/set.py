"""secret/set: store a secret, encrypted."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from sessiond.errors import RevisionMismatch
from sessiond.methods._shared.secret_params import SECRET_ERRORS, plaintext_of
from sessiond.methods._shared.values import ExpectedRevision, StateParams
from sessiond.model.deferred import DEFERRED
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.client import Client


class SecretSetParams(StateParams):
    """JSON value to encrypt, with the revision that the key must have."""

    value: Raw
    expected_revision: ExpectedRevision = msgspec.UNSET


class SecretSetResult(Struct, frozen=True):
    """Revision of the secret; `created` is false if there was one before."""

    revision: int
    created: bool


def handle(client: Client, params: SecretSetParams, call: Call[Client]) -> Any:
    """Encrypt the value once the key is at hand."""
    plaintext = plaintext_of(params.value)
    client.service.work(call, lambda: _set(client, params, plaintext))
    return DEFERRED


async def _set(client: Client, params: SecretSetParams, plaintext: bytes) -> SecretSetResult:
    stored = await client.service.secrets.set(
        params.namespace, params.key, plaintext, params.expected_revision
    )
    return SecretSetResult(stored.revision, stored.created)


METHOD = Method(
    name="secret/set",
    params=SecretSetParams,
    result=SecretSetResult,
    handle=handle,
    access="write",
    errors=(RevisionMismatch, *SECRET_ERRORS),
)
