"""session/delete: move a session to the trash, from where only session/purge takes it away."""

from __future__ import annotations

from typing import Any

from sessiond.methods.common import DEFERRED, Call, Client, Empty, Method, SessionParams
from sessiond.service.opened import Opened

__all__ = ["METHOD"]


def handle(client: Client, params: SessionParams, call: Call[Client]) -> Any:
    """From here on the session takes no requests: those before are served, later ones find nothing."""
    session_id = params.session_id

    def discard(opened: Opened | None) -> Empty:
        client.service.store.keeping.discard(session_id, opened)
        return Empty()

    retirement = client.service.hosts.retire(session_id, "deleted", discard)
    client.service.work(call, retirement.outcome)
    return DEFERRED


METHOD = Method(
    name="session/delete", params=SessionParams, result=Empty, handle=handle, access="write"
)
