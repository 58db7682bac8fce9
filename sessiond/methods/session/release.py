"""session/release: end a lease."""

from __future__ import annotations

from typing import Any

from sessiond.methods._shared.common import Empty, SessionParams, ask_in_turn
from sessiond.methods._shared.head_params import LeaseId
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.actor import SessionActor
from sessiond.service.client import Client


class ReleaseParams(SessionParams):
    """Id of the lease."""

    lease_id: LeaseId


def handle(client: Client, params: ReleaseParams, call: Call[Client]) -> Any:
    """End the lease once this connection's earlier mutations are stored."""

    def release(actor: SessionActor) -> Any:
        answer = actor.leases.release(params.lease_id, call, Empty())
        actor.leases_changed()
        return answer

    return ask_in_turn(client, call, params.session_id, release)


METHOD = Method(
    name="session/release", params=ReleaseParams, result=Empty, handle=handle, access="write"
)
