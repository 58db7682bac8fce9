"""session/archive: keep a session to be read, out of the lists and closed to changes."""

from __future__ import annotations

from typing import Any

from sessiond.methods.common import Call, Client, Empty, Method, SessionParams, act
from sessiond.service.host import Host

__all__ = ["METHOD"]


def handle(client: Client, params: SessionParams, call: Call[Client]) -> Any:
    """Move the file in its turn: what was sent before is stored, what comes after is refused."""

    def archive(host: Host) -> None:
        client.service.store.keeping.archive(host.opened)

    return act(client, call, params.session_id, archive, "archived")


METHOD = Method(
    name="session/archive", params=SessionParams, result=Empty, handle=handle, access="write"
)
