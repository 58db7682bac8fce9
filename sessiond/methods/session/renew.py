"""session/renew: extend a lease."""

from __future__ import annotations

from typing import Any

from sessiond.errors import LeaseLost
from sessiond.methods._shared.common import SessionParams, ask_in_turn
from sessiond.methods._shared.head_params import LeaseId, Ttl
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.actor import SessionActor
from sessiond.service.actor.lease import Lease
from sessiond.service.client import Client


class RenewParams(SessionParams):
    """Id of the lease, and its duration from now on."""

    lease_id: LeaseId
    ttl_ms: Ttl


def handle(client: Client, params: RenewParams, call: Call[Client]) -> Any:
    """Set a new end of the lease, in its turn among the mutations."""

    def renew(actor: SessionActor) -> Any:
        answer = actor.leases.renew(params.lease_id, params.ttl_ms, call)
        actor.leases_changed()
        return answer

    return ask_in_turn(client, call, params.session_id, renew)


METHOD = Method(
    name="session/renew",
    params=RenewParams,
    result=Lease,
    handle=handle,
    access="write",
    errors=(LeaseLost,),
)
