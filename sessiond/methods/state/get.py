"""state/get: return the value of a key."""

from __future__ import annotations

from typing import Any

from sessiond.methods._shared.values import STATE_ERRORS, StateParams, StateRow, state_row
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.client import Client
from sessiond.state.document import Document


def handle(client: Client, params: StateParams, call: Call[Client]) -> Any:
    """Answer from memory, behind the changes that this connection sent before."""

    def look(document: Document) -> StateRow:
        return state_row(params.key, document.get(params.key))

    return client.service.states.ask(call, params.namespace, look)


METHOD = Method(
    name="state/get",
    params=StateParams,
    result=StateRow,
    handle=handle,
    errors=STATE_ERRORS,
)
