"""One lease: as it is asked for, given, waited for, and told to others."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from sessiond.errors import LeaseHeld
from sessiond.service.ports import Ticket

__all__ = ["HeldLease", "Lease", "LeaseHolder", "LeaseRequest", "Waiter", "held_by"]


class LeaseHolder(Struct, frozen=True):
    """Who has a lease, as others are told: what that client calls itself."""

    client_id: str | None
    name: str | None


class Lease(Struct, frozen=True):
    """A lease as its holder is told."""

    lease_id: str
    epoch: int
    expires_at: str


class LeaseRequest(Struct, frozen=True):
    """What somebody asks for: a head, for how long, and how long to wait for it."""

    head: str
    ttl_ms: int
    wait_ms: int = 0


class HeldLease(Struct, eq=False):
    """A lease that was given. `ends` is on the monotonic clock, in seconds."""

    lease: Lease
    client: Any
    ends: float


class Waiter(Struct, eq=False):
    """A place in line for a head, until `until` on the monotonic clock."""

    wish: LeaseRequest
    ticket: Ticket
    until: float


def held_by(head: str, held: HeldLease | None, **data: bool) -> LeaseHeld:
    """What somebody else is told who wants this head."""
    if held is None:
        return LeaseHeld("the session is being closed; ask again", head=head, holder=None)
    return LeaseHeld(
        "somebody has this head for himself; wait with wait_ms, or work on another head",
        head=head,
        holder=LeaseHolder(held.client.client_id, held.client.name),
        epoch=held.lease.epoch,
        expires_at=held.lease.expires_at,
        **data,
    )
