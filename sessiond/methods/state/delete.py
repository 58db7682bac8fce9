"""state/delete: delete a key, on condition of its revision if wanted."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from sessiond.errors import RevisionMismatch
from sessiond.methods._shared.values import STATE_ERRORS, ExpectedRevision, StateParams
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.client import Client
from sessiond.state.document import Draft


class StateDeleteParams(StateParams):
    """Key, with the revision that the key must have."""

    expected_revision: ExpectedRevision = msgspec.UNSET


class StateDeleteResult(Struct, frozen=True):
    """`deleted` is false if there was no such key; `revision` is that of the namespace."""

    deleted: bool
    revision: int


def handle(client: Client, params: StateDeleteParams, call: Call[Client]) -> Any:
    """Put the deletion into the line of its namespace."""

    def act(draft: Draft) -> StateDeleteResult:
        deleted = draft.delete(params.key, params.expected_revision)
        return StateDeleteResult(deleted, draft.revision)

    return client.service.states.change(call, params.namespace, act)


METHOD = Method(
    name="state/delete",
    params=StateDeleteParams,
    result=StateDeleteResult,
    handle=handle,
    access="write",
    errors=(RevisionMismatch, *STATE_ERRORS),
)
