"""session/delete: move a session to the trash; only session/purge removes it for good."""

from __future__ import annotations

from typing import Any

from sessiond.methods._shared.common import Empty, SessionParams
from sessiond.model.deferred import DEFERRED
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.client import Client
from sessiond.service.log.open_session import OpenSession


def handle(client: Client, params: SessionParams, call: Call[Client]) -> Any:
    """Close the session to new requests and move its file to the trash.

    Requests before this one are served; later requests answer session_not_found.
    """
    session_id = params.session_id

    def discard(opened: OpenSession | None) -> Empty:
        client.service.store.discard(session_id, opened)
        return Empty()

    retirement = client.service.registry.retire(session_id, "deleted", discard)
    client.service.work(call, retirement.outcome)
    return DEFERRED


METHOD = Method(
    name="session/delete", params=SessionParams, result=Empty, handle=handle, access="write"
)
