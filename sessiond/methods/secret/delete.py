"""secret/delete: delete a secret."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from sessiond.errors import RevisionMismatch
from sessiond.methods._shared.secret_params import SECRET_ERRORS
from sessiond.methods._shared.values import ExpectedRevision, StateParams
from sessiond.model.deferred import DEFERRED
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.client import Client


class SecretDeleteParams(StateParams):
    """Key, with the revision that the key must have."""

    expected_revision: ExpectedRevision = msgspec.UNSET


class SecretDeleteResult(Struct, frozen=True):
    """`deleted` is false if there was no such secret; `revision` is that of the namespace."""

    deleted: bool
    revision: int


def handle(client: Client, params: SecretDeleteParams, call: Call[Client]) -> Any:
    """Delete the secret once the key is at hand, which the seal of the file needs."""
    client.service.work(call, lambda: _delete(client, params))
    return DEFERRED


async def _delete(client: Client, params: SecretDeleteParams) -> SecretDeleteResult:
    deleted, revision = await client.service.secrets.delete(
        params.namespace, params.key, params.expected_revision
    )
    return SecretDeleteResult(deleted, revision)


METHOD = Method(
    name="secret/delete",
    params=SecretDeleteParams,
    result=SecretDeleteResult,
    handle=handle,
    access="write",
    errors=(RevisionMismatch, *SECRET_ERRORS),
)
