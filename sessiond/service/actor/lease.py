"""The values of a lease: its request, its holder, its waiters, and the refusal of other clients."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from sessiond.errors import LeaseHeld, Overloaded
from sessiond.limits import LEASES_MAX, RETRY_AFTER_MS
from sessiond.service.ports import Ticket


class LeaseHolder(Struct, frozen=True):
    """The holder of a lease as other clients see it: the names that the client gives itself."""

    client_id: str | None
    name: str | None


class Lease(Struct, frozen=True):
    """A lease as its holder sees it."""

    lease_id: str
    epoch: int
    expires_at: str


class LeaseRequest(Struct, frozen=True):
    """A request for a lease: the head, the lease's duration, and the longest wait."""

    head: str
    ttl_ms: int
    wait_ms: int = 0


class HeldLease(Struct, eq=False):
    """A granted lease. `ends` is on the monotonic clock, in seconds."""

    lease: Lease
    client: Any
    ends: float


class Waiter(Struct, eq=False):
    """A place in line for a head, until `until` on the monotonic clock."""

    wish: LeaseRequest
    ticket: Ticket
    until: float


_HEAD_IS_LEASED: Final = "the head is leased: wait with wait_ms, or work on another head"


def held_by(
    head: str, held: HeldLease | None, text: str = _HEAD_IS_LEASED, **data: bool
) -> LeaseHeld:
    """Return the refusal for another client that wants this head."""
    if held is None:
        return LeaseHeld("the session is being closed; ask again", head=head, holder=None)
    return LeaseHeld(
        text,
        head=head,
        holder=LeaseHolder(held.client.client_id, held.client.name),
        epoch=held.lease.epoch,
        expires_at=held.lease.expires_at,
        **data,
    )


def too_many_leases() -> Overloaded:
    """Return the refusal of a lease beside as many leases as a session may have."""
    return Overloaded(
        "too many heads of this session are leased",
        limit=LEASES_MAX,
        retry_after_ms=RETRY_AFTER_MS,
    )
