"""state/set: store a value under a key, on condition of its revision if wanted."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from sessiond.errors import RevisionMismatch
from sessiond.methods._shared.values import (
    STATE_ERRORS,
    ExpectedRevision,
    StateParams,
    Tags,
    TtlMs,
    expiry_text,
)
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.client import Client
from sessiond.state.document import Draft, Write


class StateSetParams(StateParams):
    """Value of the key, with the revision that the key must have.

    Without `ttl_ms` the value stays until it is deleted.
    """

    value: Raw
    expected_revision: ExpectedRevision = msgspec.UNSET
    ttl_ms: TtlMs | None = None
    tags: Tags = ()


class StateSetResult(Struct, frozen=True):
    """Revision of the value; `created` is false if the key had a value before."""

    revision: int
    created: bool
    expires_at: str | None


def handle(client: Client, params: StateSetParams, call: Call[Client]) -> Any:
    """Put the value into the line of its namespace."""
    states = client.service.states
    # The bytes of the request are not kept in memory behind it.
    value, tags = params.value.copy(), tuple(dict.fromkeys(params.tags))

    def act(draft: Draft) -> StateSetResult:
        expires_ms = None if params.ttl_ms is None else states.now_ms + params.ttl_ms
        created = draft.get(params.key) is None
        write = Write(params.key, value, tags, expires_ms, params.expected_revision)
        record = draft.put(write)
        return StateSetResult(record.revision, created, expiry_text(expires_ms))

    return states.change(call, params.namespace, act)


METHOD = Method(
    name="state/set",
    params=StateSetParams,
    result=StateSetResult,
    handle=handle,
    access="write",
    errors=(RevisionMismatch, *STATE_ERRORS),
)
