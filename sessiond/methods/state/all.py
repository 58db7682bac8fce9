"""state/all: return all values of a namespace."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from sessiond.methods._shared.values import (
    STATE_ERRORS,
    NamespaceParams,
    StateRow,
    Tags,
    state_row,
)
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.client import Client
from sessiond.state.document import Document


class StateAllParams(NamespaceParams):
    """Namespace, and the tags that the values must all have."""

    tags: Tags = ()


class StateAllResult(Struct, frozen=True):
    """Values by key; `revision` is that of the namespace."""

    values: list[StateRow]
    revision: int


def handle(client: Client, params: StateAllParams, call: Call[Client]) -> Any:
    """Answer from memory, behind the changes that this connection sent before."""

    def look(document: Document) -> StateAllResult:
        rows = [state_row(key, record) for key, record in document.tagged(params.tags)]
        return StateAllResult(rows, document.revision)

    return client.service.states.ask(call, params.namespace, look)


METHOD = Method(
    name="state/all",
    params=StateAllParams,
    result=StateAllResult,
    handle=handle,
    errors=STATE_ERRORS,
)
