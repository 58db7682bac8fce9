"""The leases of one session's heads, and the clients that wait for one.

Law 1: a head has one lease at a time, and waiting clients get the head in the order of their
requests. Law 2: a lease ends with its time, its release or its connection. An ended lease is
dropped at the next look; a timer runs only for waiting clients. Law 3: a lease is granted between
two batches of the writer, so all batches before the grant are stored before it.

Synchronous and without I/O. A restart ends all leases; epochs go on growing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any, ClassVar

from sessiond.errors import Cancelled, HeadNotFound, Overloaded, SessiondError
from sessiond.limits import (
    LEASE_WAITERS_MAX,
    LEASES_MAX,
    LEASES_PER_CONNECTION_MAX,
    RETRY_AFTER_MS,
)
from sessiond.model.deferred import DEFERRED
from sessiond.model.ids import MAIN
from sessiond.model.row import Rules
from sessiond.model.times import rfc3339, unix_ms
from sessiond.service.actor.lease import (
    HeldLease,
    Lease,
    LeaseRequest,
    Waiter,
    held_by,
    too_many_leases,
)
from sessiond.service.environment import Environment
from sessiond.service.ports import Ticket
from sessiond.service.store.lease_table import LeaseChange
from sessiond.session.leases import lease_lost, lease_of_another


class Leases:
    """The leased heads of one open session."""

    is_shared: ClassVar[bool] = False
    """True if other daemons may lease heads: `refresh` and `settle` have something to do."""

    def __init__(
        self, environment: Environment, next_epoch: Callable[[], int], rules: Rules
    ) -> None:
        self._environment = environment
        self._next_epoch = next_epoch
        self._rules = rules
        self.held: dict[str, HeldLease] = {}
        """The leases by head; some may have run out since the last look."""
        self.waiting: dict[Waiter, None] = {}
        self.asked: list[Any] = []
        """Changes that wait for `settle`; none where the leases are in memory."""

    @property
    def in_use(self) -> bool:
        """True if a head is leased or a client waits for one."""
        self._drop_ended()
        return bool(self.held or self.waiting)

    def refresh(self) -> None:
        """Take over the leases that other daemons gave, as the last look found them."""

    def outgoing(self) -> Sequence[LeaseChange]:
        """Return what puts the leases of a session in memory to where the session comes, if shared."""
        return ()

    async def settle(self) -> None:
        """Bring what was asked to the store, if leases are kept there. Raises Replaced."""

    def concerns(self, client: Any) -> bool:
        """Return whether this connection leases a head or waits for one."""
        self._drop_ended()
        holders = [held.client for held in self.held.values()]
        return client in (*holders, *(waiter.ticket.client for waiter in self.waiting))

    # -- checks before a head moves --------------------------------------------------

    def require(self, head: str, lease_id: str | None) -> None:
        """Raise unless the head is free or `lease_id` is its lease.

        Raises InvalidParams for the lease of another head, LeaseHeld if another client has the
        head, and LeaseLost for an ended lease.
        """
        held = self._holding(head)
        if lease_id is not None:
            self._require_not_of_another(head, lease_id)
        if held is None:
            if lease_id is not None:
                raise lease_lost(lease_id)
        elif held.lease.lease_id != lease_id:
            # A retry with an ended lease cannot succeed.
            raise held_by(head, held, retryable=lease_id is None)

    def _require_not_of_another(self, head: str, lease_id: str) -> None:
        for name in list(self.held):
            held = self._holding(name)
            if held is not None and held.lease.lease_id == lease_id and name != head:
                raise lease_of_another(name, head)

    def require_settings(self, client: Any, lease_id: str | None) -> None:
        """Raise unless every leased head is this connection's own or leased as `lease_id`.

        Raises LeaseHeld, and LeaseLost for an ended lease.
        """
        self._drop_ended()
        if lease_id is not None and not any(
            held.lease.lease_id == lease_id for held in self.held.values()
        ):
            raise lease_lost(lease_id)
        for head, held in self.held.items():
            if held.client is not client and held.lease.lease_id != lease_id:
                text = "a client works under a lease: change the settings when the lease is over"
                raise held_by(head, held, text)

    def is_held(self, head: str) -> bool:
        """Return whether the head is leased."""
        return self._holding(head) is not None

    # -- requests of clients, served between two batches ------------------------------

    def acquire(self, wish: LeaseRequest, ticket: Ticket) -> Any:
        """Return a lease, or DEFERRED if the client must wait for the head.

        Raises LeaseHeld, HeadNotFound, Overloaded.
        """
        self._require_head(wish.head)
        self._require_share(ticket.client)
        self.serve()
        held = self._holding(wish.head)
        if held is None:
            return self._give(wish, ticket.client)
        if not wish.wait_ms:
            raise held_by(wish.head, held)
        self._require_place()
        until = self._environment.monotonic() + wish.wait_ms / 1000
        self.waiting[Waiter(wish, ticket, until)] = None
        return DEFERRED

    def _require_head(self, head: str) -> None:
        if head != MAIN and not self._rules.named_heads:
            raise HeadNotFound("files of this dialect have one head, main", head=head)

    def _require_share(self, client: Any) -> None:
        """Raise Overloaded if one connection has many of the session's leases, or waits for many."""
        if len(self.held) + len(self.waiting) < LEASES_PER_CONNECTION_MAX:
            return
        self._drop_ended()
        own = sum(held.client is client for held in self.held.values())
        own += sum(waiter.ticket.client is client for waiter in self.waiting)
        if own >= LEASES_PER_CONNECTION_MAX:
            raise Overloaded(
                "this connection leases, or waits for, as many heads of this session as it may: release some",
                limit=LEASES_PER_CONNECTION_MAX,
                retry_after_ms=RETRY_AFTER_MS,
            )

    def _require_place(self) -> None:
        if len(self.waiting) >= LEASE_WAITERS_MAX:
            raise Overloaded(
                "too many clients wait for heads of this session",
                limit=LEASE_WAITERS_MAX,
                retry_after_ms=RETRY_AFTER_MS,
            )

    def give_up(self, ticket: Ticket) -> bool:
        """Remove a cancelled waiter; return False if it was answered already."""
        waiter = next((one for one in self.waiting if one.ticket is ticket), None)
        if waiter is None:
            return False
        del self.waiting[waiter]
        return True

    def stop_waiting(self, client: Any) -> None:
        """Cancel all waits of a connection whose input has ended."""
        for waiter in list(self.waiting):
            if waiter.ticket.client is client:
                del self.waiting[waiter]
                waiter.ticket.fail(Cancelled("the connection ended while it waited for the lease"))
                waiter.ticket.flush()

    def renew(self, lease_id: str, ttl_ms: int, ticket: Ticket) -> Any:  # noqa: ARG002
        """Extend a lease to `ttl_ms` from now; return the lease, or DEFERRED. Raises LeaseLost."""
        self._drop_ended()
        for head, held in self.held.items():
            if held.lease.lease_id == lease_id:
                lease = Lease(lease_id, held.lease.epoch, self._time_in(ttl_ms))
                self.held[head] = HeldLease(lease, held.client, self._ends_in(ttl_ms))
                return lease
        raise lease_lost(lease_id)

    def release(self, lease_id: str, ticket: Ticket, answer: Any) -> Any:  # noqa: ARG002
        """End a lease; return `answer`, or DEFERRED. An ended lease is no error."""
        for head, held in list(self.held.items()):
            if held.lease.lease_id == lease_id:
                del self.held[head]
        return answer

    # -- ends ------------------------------------------------------------------------

    def leave(self, client: Any) -> None:
        """End the leases and the waits of a closed connection."""
        for head, held in list(self.held.items()):
            if held.client is client:
                del self.held[head]
        for waiter in list(self.waiting):
            if waiter.ticket.client is client:
                del self.waiting[waiter]

    def serve(self) -> None:
        """Grant free heads to waiting clients; refuse clients whose wait is over."""
        if not self.waiting:
            return
        now = self._environment.monotonic()
        for waiter in list(self.waiting):
            wish, ticket = waiter.wish, waiter.ticket
            held = self._holding(wish.head)
            if held is not None and now < waiter.until:
                continue
            del self.waiting[waiter]
            try:
                if held is not None:
                    raise held_by(wish.head, held)
                ticket.answer(self._give(wish, ticket.client))
            except SessiondError as refusal:
                ticket.fail(refusal)
            ticket.flush()

    def due_in(self) -> float:
        """Return the seconds until `serve` must be called again; inf without waiting clients."""
        ends = [min(one.until, self._end_of(one.wish.head)) for one in self.waiting]
        return max(0.0, min(ends) - self._environment.monotonic()) if ends else inf

    def close(self, why: SessiondError | None = None) -> None:
        """Refuse all waiting clients and end all leases, because the session is closed.

        The refusal is `why`, else a LeaseHeld that names the holder of the head.
        """
        for waiter in self.waiting:
            head = waiter.wish.head
            waiter.ticket.fail(why or held_by(head, self.held.get(head)))
            waiter.ticket.flush()
        self.waiting, self.held = {}, {}

    # -- steps -----------------------------------------------------------------------

    def _give(self, wish: LeaseRequest, client: Any) -> Lease:
        if len(self.held) >= LEASES_MAX:
            self._drop_ended()
        if len(self.held) >= LEASES_MAX:
            raise too_many_leases()
        lease_id = self._environment.new_lease_id()
        lease = Lease(lease_id, self._next_epoch(), self._time_in(wish.ttl_ms))
        self.held[wish.head] = HeldLease(lease, client, self._ends_in(wish.ttl_ms))
        return lease

    def _holding(self, head: str) -> HeldLease | None:
        held = self.held.get(head)
        if held is not None and held.ends <= self._environment.monotonic():
            del self.held[head]
            return None
        return held

    def _drop_ended(self) -> None:
        for head in list(self.held):
            self._holding(head)

    def _end_of(self, head: str) -> float:
        return self.held[head].ends if head in self.held else 0.0

    def _ends_in(self, ttl_ms: int) -> float:
        return self._environment.monotonic() + ttl_ms / 1000

    def _time_in(self, ttl_ms: int) -> str:
        return rfc3339((unix_ms(self._environment.now()) or 0) + ttl_ms)
