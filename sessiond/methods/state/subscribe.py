"""state/subscribe: receive a notification for each change of the state store."""

from __future__ import annotations

from msgspec import Struct

from sessiond.errors import Draining, Overloaded
from sessiond.model.ids import Namespace
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.rpc.params import Params
from sessiond.service.client import Client


class StateSubscribeParams(Params):
    """Namespace; without it, all of them."""

    namespace: Namespace | None = None


class StateSubscribeResult(Struct, frozen=True):
    """Revision of the store; later changes are told."""

    revision: int


def handle(
    client: Client, params: StateSubscribeParams, _call: Call[Client]
) -> StateSubscribeResult:
    """Register the connection in one step with the answer, so that no change falls between."""
    states = client.service.states
    client.require_here()
    states.subscribe(client.listener, params.namespace)
    return StateSubscribeResult(states.documents.committed_revision)


METHOD = Method(
    name="state/subscribe",
    params=StateSubscribeParams,
    result=StateSubscribeResult,
    handle=handle,
    errors=(Overloaded, Draining),
)
