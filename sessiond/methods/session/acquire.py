"""session/acquire: lease a head, or wait until its lease is free."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from sessiond.errors import HeadNotFound, LeaseHeld
from sessiond.limits import LEASE_WAIT_MS_MAX
from sessiond.methods._shared.common import SessionParams, ask_in_turn
from sessiond.methods._shared.head_params import Ttl
from sessiond.model.ids import MAIN, HeadName
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.lease import Lease, LeaseRequest
from sessiond.service.client import Client


class AcquireParams(SessionParams, kw_only=True):
    """Head to lease, duration of the lease, and time to wait while another holder has the head."""

    head: HeadName = MAIN
    ttl_ms: Ttl
    wait_ms: Annotated[int, Meta(ge=0, le=LEASE_WAIT_MS_MAX)] = 0


def handle(client: Client, params: AcquireParams, call: Call[Client]) -> Any:
    """Grant the lease once no batch is on its way to the disk, or queue the call for the lease."""
    wish = LeaseRequest(params.head, params.ttl_ms, params.wait_ms)
    return ask_in_turn(
        client, call, params.session_id, lambda actor: client.acquire(actor, wish, call)
    )


METHOD = Method(
    name="session/acquire",
    params=AcquireParams,
    result=Lease,
    handle=handle,
    access="write",
    errors=(
        HeadNotFound,
        LeaseHeld,
    ),
)
