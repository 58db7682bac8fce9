"""Changes of the leases in a store, and a lease in there as its holder sees it."""

from __future__ import annotations

from typing import Any, Final

from msgspec import structs

from sessiond.limits import LEASES_MAX
from sessiond.model.times import rfc3339
from sessiond.service.actor.lease import HeldLease, Lease, LeaseRequest
from sessiond.service.store.lease_table import LeaseChange, Leased, Leasing

_MS_NS: Final = 1_000_000


def granting(wish: LeaseRequest, lease_id: str, client: Any) -> LeaseChange:
    """Return the change that grants a lease, or names the lease that is in the way."""

    def grant(leasing: Leasing) -> tuple[bool, Leased] | None:
        held = leasing.by_head.get(wish.head)
        if held is not None:
            return False, held
        if len(leasing.by_head) >= LEASES_MAX:
            return None
        ends_ns = leasing.now_ns + wish.ttl_ms * _MS_NS
        granted = _leased(leasing, wish.head, lease_id, leasing.new_epoch(), ends_ns, client)
        leasing.by_head[wish.head] = granted
        return True, granted

    return grant


def extending(lease_id: str, ttl_ms: int) -> LeaseChange:
    """Return the change that extends a lease, and finds None for an ended lease."""

    def extend(leasing: Leasing) -> Leased | None:
        for head, one in leasing.by_head.items():
            if one.lease_id == lease_id:
                ends_ns = leasing.now_ns + ttl_ms * _MS_NS
                leasing.by_head[head] = structs.replace(one, ends_ns=ends_ns)
                return leasing.by_head[head]
        return None

    return extend


def ending(lease_id: str) -> LeaseChange:
    """Return the change that ends a lease; an ended lease is no error."""

    def end(leasing: Leasing) -> None:
        for head, one in list(leasing.by_head.items()):
            if one.lease_id == lease_id:
                del leasing.by_head[head]

    return end


def bringing(head: str, held: HeldLease, seconds: float) -> LeaseChange:
    """Return the change that puts a lease from the memory into the store."""
    lease, client = held.lease, held.client

    def put(leasing: Leasing) -> None:
        ends_ns = leasing.now_ns + int(seconds * 1000) * _MS_NS
        leasing.by_head[head] = _leased(leasing, head, lease.lease_id, lease.epoch, ends_ns, client)

    return put


def _leased(  # noqa: PLR0913 - the fields of a lease
    leasing: Leasing, head: str, lease_id: str, epoch: int, ends_ns: int, client: Any
) -> Leased:
    return Leased(head, lease_id, epoch, ends_ns, leasing.daemon, client.client_id, client.name)


def lease_of(leased: Leased) -> Lease:
    """Return a lease as its holder sees it."""
    return Lease(leased.lease_id, leased.epoch, rfc3339(leased.ends_ns // _MS_NS))
