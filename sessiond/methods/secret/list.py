"""secret/list: list the names of the secrets, never a secret."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from sessiond.methods._shared.values import STATE_ERRORS
from sessiond.model.deferred import DEFERRED
from sessiond.model.ids import Namespace
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.rpc.params import Params
from sessiond.service.client import Client
from sessiond.service.states.states import AllDocuments, States
from sessiond.state.folder import Aside


class SecretListParams(Params):
    """Namespace whose secrets are listed; without it, those of all."""

    namespace: Namespace | None = None


class SecretRow(Struct, frozen=True):
    """Name of a secret, and when it was stored."""

    namespace: str
    key: str
    revision: int
    created_at: str
    updated_at: str


class SecretListResult(Struct, frozen=True):
    """Names of the secrets, and the files that were put aside."""

    secrets: list[SecretRow]
    aside: list[Aside]


def handle(client: Client, params: SecretListParams, call: Call[Client]) -> Any:
    """List the names, for which no key is needed."""
    states = client.service.secrets.states
    states.list_all(call, lambda found: _list(states, found, params.namespace))
    return DEFERRED


async def _list(states: States, found: AllDocuments, namespace: str | None) -> SecretListResult:
    rows = [
        SecretRow(one.namespace, key, record.revision, record.created_at, record.updated_at)
        for one in found.documents
        if namespace in {None, one.namespace}
        for key, record in one.tagged(())
    ]
    aside = [one for one in await states.aside() if namespace in {None, one.namespace}]
    return SecretListResult(rows, aside)


METHOD = Method(
    name="secret/list",
    params=SecretListParams,
    result=SecretListResult,
    handle=handle,
    errors=STATE_ERRORS,
)
