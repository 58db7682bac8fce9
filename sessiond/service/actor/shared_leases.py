"""The leases of a session that other daemons serve too.

Law 1: a lease is granted, extended and ended in the store, between two batches of the writer; until then
a request waits. Law 2: the leases that staging asks are those of the last look; an append takes effect
only under these. A session that no other daemon can have is served as `Leases` serves it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import Any, ClassVar, Final

from msgspec import Struct

from sessiond.errors import SessiondError, StorageError
from sessiond.journal.store import Replaced
from sessiond.model.deferred import DEFERRED
from sessiond.model.row import Rules
from sessiond.service.actor.lease import (
    HeldLease,
    LeaseHolder,
    LeaseRequest,
    Waiter,
    held_by,
    too_many_leases,
)
from sessiond.service.actor.lease_changes import bringing, ending, extending, granting, lease_of
from sessiond.service.actor.leases import Leases
from sessiond.service.environment import Environment
from sessiond.service.ports import Ticket
from sessiond.service.store.lease_table import LeaseChange, Leased, LeaseTable
from sessiond.service.thread_pool import ThreadPool
from sessiond.session.leases import lease_lost

_RETRY_SECONDS: Final = 1.0


class _Asked(Struct, eq=False):
    """A change on its way to the store, and what becomes of its outcome."""

    change: LeaseChange
    done: Callable[[Any], None]
    failed: Callable[[SessiondError | None], None] | None
    """Called with None if the leases ended with the log.

    None for the end of a lease whose connection is gone, which is tried again.
    """


class SharedLeases(Leases):
    """The leased heads of one open session that other daemons may have open."""

    is_shared: ClassVar[bool] = True

    def __init__(
        self,
        environment: Environment,
        next_epoch: Callable[[], int],
        rules: Rules,
        table: Callable[[], LeaseTable | None],
        threads: ThreadPool,
    ) -> None:
        """Take what finds the leases in the store, None while the session is in memory, and threads to wait."""
        super().__init__(environment, next_epoch, rules)
        self._find_table = table
        self._threads = threads
        self.asked: list[_Asked] = []
        self._seen: tuple[Leased, ...] | None = None
        self._mine: dict[str, Any] = {}
        """The connections of this daemon that hold a lease, by its id."""
        self._told: set[Waiter] = set()
        """Waiters that the store has answered once: their head was leased."""
        self._asking: set[Waiter] = set()
        self._retry_at = inf
        self._outgoing: set[str] = set()
        """The leases that came out of memory with the session."""

    # -- what is known ---------------------------------------------------------------

    @property
    def in_use(self) -> bool:
        """True if a connection of this daemon leases a head, or waits for one."""
        return bool(self.asked or self.waiting) or any(map(self._is_mine, self.held.values()))

    def _is_mine(self, held: HeldLease) -> bool:
        return not isinstance(held.client, LeaseHolder)

    def refresh(self) -> None:
        """Take over the leases that the store had at the last look."""
        table = self._find_table()
        if table is None:
            return
        if self._seen is None:
            self._bring()
        if table.seen() is not self._seen:
            self._take(table)

    def _take(self, table: LeaseTable) -> None:
        """Make the stored leases those that are held, in the names of this daemon's connections."""
        seen = self._seen = table.seen()
        there = {one.lease_id for one in seen}
        self._mine = {name: client for name, client in self._mine.items() if name in there}
        self.held = {
            one.head: HeldLease(
                lease_of(one),
                self._mine.get(one.lease_id, LeaseHolder(one.client_id, one.name)),
                # In this order: a pause between the two lets the lease end later, never earlier.
                table.seconds_left(one) + self._environment.monotonic(),
            )
            for one in seen
        }

    def outgoing(self) -> Sequence[LeaseChange]:
        """Return what puts the leases into the store, with a session that leaves the memory now."""
        if self._find_table() is not None:
            return ()
        self._drop_ended()
        self._outgoing = {held.lease.lease_id for held in self.held.values()}
        now = self._environment.monotonic()
        return [bringing(head, held, held.ends - now) for head, held in self.held.items()]

    def _bring(self) -> None:
        """Take over the leases of a session that came out of memory: the store has them."""
        self._mine = {held.lease.lease_id: held.client for held in self.held.values()}
        # The connections of these ended while the session was stored.
        for lease_id in self._outgoing - self._mine.keys():
            self._end(lease_id)
        self._outgoing = set()

    # -- requests ----------------------------------------------------------------------

    def acquire(self, wish: LeaseRequest, ticket: Ticket) -> Any:
        """Return DEFERRED: the store grants the lease. Raises HeadNotFound, Overloaded."""
        if self._find_table() is None:
            return super().acquire(wish, ticket)
        self._require_head(wish.head)
        self._require_share(ticket.client)
        self._require_place()
        until = self._environment.monotonic() + wish.wait_ms / 1000
        self.waiting[Waiter(wish, ticket, until)] = None
        return DEFERRED

    def renew(self, lease_id: str, ttl_ms: int, ticket: Ticket) -> Any:
        """Return DEFERRED: the store extends the lease."""
        if self._find_table() is None:
            return super().renew(lease_id, ttl_ms, ticket)

        def answer(extended: Leased | None) -> None:
            if extended is None:
                ticket.fail(lease_lost(lease_id))
            else:
                ticket.answer(lease_of(extended))
            ticket.flush()

        self._ask(extending(lease_id, ttl_ms), answer, ticket)
        return DEFERRED

    def release(self, lease_id: str, ticket: Ticket, answer: Any) -> Any:
        """Return DEFERRED: the store ends the lease, and the ticket gets `answer`."""
        if self._find_table() is None:
            return super().release(lease_id, ticket, answer)

        def done(_outcome: Any) -> None:
            ticket.answer(answer)
            ticket.flush()

        self._ask(ending(lease_id), done, ticket)
        return DEFERRED

    def _ask(self, change: LeaseChange, done: Callable[[Any], None], ticket: Ticket) -> None:
        def failed(error: SessiondError | None) -> None:
            if error is None:
                done(None)
                return
            ticket.fail(error)
            ticket.flush()

        self.asked.append(_Asked(change, done, failed))

    # -- ends --------------------------------------------------------------------------

    def leave(self, client: Any) -> None:
        """End the leases and the waits of a closed connection."""
        if self._find_table() is None:
            super().leave(client)
            return
        self.refresh()
        for waiter in list(self.waiting):
            if waiter.ticket.client is client:
                del self.waiting[waiter]
        for lease_id, holder in list(self._mine.items()):
            if holder is client:
                self._end(lease_id)

    def _end(self, lease_id: str) -> None:
        """End a lease that no connection holds any more."""
        self._mine.pop(lease_id, None)
        self.asked.append(_Asked(ending(lease_id), _nothing, None))

    def close(self, why: SessiondError | None = None) -> None:
        """Refuse all waiting clients and end all leases, because the session is closed."""
        super().close(why)
        asked, self.asked, self._mine = self.asked, [], {}
        for one in asked:
            if one.failed is not None:
                one.failed(why)

    # -- the store ---------------------------------------------------------------------

    def serve(self) -> None:
        """Ask the store for heads that may be free; refuse clients whose wait is over."""
        table = self._find_table()
        if table is None:
            super().serve()
            return
        self.refresh()
        self._clear(table)
        now = self._environment.monotonic()
        for waiter in list(self.waiting):
            if waiter in self._asking:
                continue
            held = self._holding(waiter.wish.head)
            if waiter not in self._told or held is None:
                self._asking.add(waiter)
                lease_id = self._environment.new_lease_id()
                grant = granting(waiter.wish, lease_id, waiter.ticket.client)
                self.asked.append(_Asked(grant, self._judged(waiter), self._lost(waiter)))
            elif now >= waiter.until:
                self._refuse(waiter, held_by(waiter.wish.head, held))

    def _clear(self, table: LeaseTable) -> None:
        """Ask the store for a change, if only a change is missing to drop leases without a holder."""
        if table.is_stale and not self.asked:
            self.asked.append(_Asked(_nothing, _nothing, None))

    def _judged(self, waiter: Waiter) -> Callable[[tuple[bool, Leased] | None], None]:
        def judge(outcome: tuple[bool, Leased] | None) -> None:
            self._asking.discard(waiter)
            if outcome is None:
                self._refuse(waiter, too_many_leases())
                return
            is_granted, leased = outcome
            if not is_granted:
                self._told.add(waiter)
                if self._environment.monotonic() >= waiter.until:
                    holder = LeaseHolder(leased.client_id, leased.name)
                    self._refuse(
                        waiter, held_by(leased.head, HeldLease(lease_of(leased), holder, 0.0))
                    )
            elif waiter in self.waiting:
                self._forget(waiter)
                self._mine[leased.lease_id] = waiter.ticket.client
                waiter.ticket.answer(lease_of(leased))
                waiter.ticket.flush()
            else:
                # The client gave up meanwhile.
                self._end(leased.lease_id)

        return judge

    def _lost(self, waiter: Waiter) -> Callable[[SessiondError | None], None]:
        def lost(error: SessiondError | None) -> None:
            self._asking.discard(waiter)
            self._refuse(waiter, error or held_by(waiter.wish.head, None))

        return lost

    def _refuse(self, waiter: Waiter, error: SessiondError) -> None:
        if waiter in self.waiting:
            self._forget(waiter)
            waiter.ticket.fail(error)
            waiter.ticket.flush()

    def _forget(self, waiter: Waiter) -> None:
        del self.waiting[waiter]
        self._told.discard(waiter)

    async def settle(self) -> None:
        """Bring what was asked to the store, in one change. Raises Replaced."""
        table = self._find_table()
        if table is None or not self.asked or self._environment.monotonic() < self._wait_until:
            return
        asked, self.asked = self.asked, []
        self._retry_at = inf
        try:
            changes = [one.change for one in asked]
            outcomes = await self._threads.finish(partial(table.change, changes))
        except (StorageError, Replaced) as error:
            self._put_back(asked, error)
            self._clear(table)
            if self.asked:
                self._retry_at = self._environment.monotonic() + _RETRY_SECONDS
            if isinstance(error, Replaced):
                raise
            return
        for one, outcome in zip(asked, outcomes, strict=True):
            one.done(outcome)
        self._take(table)

    def _put_back(self, asked: list[_Asked], error: StorageError | Replaced) -> None:
        """Fail what clients wait for; try again later what ends a lease."""
        refusal = error if isinstance(error, StorageError) else None
        for one in asked:
            if one.failed is None:
                self.asked.append(one)
            else:
                one.failed(refusal)

    @property
    def _wait_until(self) -> float:
        """Time before which nothing is brought to the store: only ends of leases wait, and had failed."""
        is_retry = self._retry_at < inf and all(one.failed is None for one in self.asked)
        return self._retry_at if is_retry else 0.0

    def due_in(self) -> float:
        """Return the seconds until `serve` must be called again, and `settle` behind it."""
        due_in = super().due_in()
        if not self.asked or self._find_table() is None:
            return due_in
        # The outcome of a change may ask for another change.
        return min(due_in, max(0.0, self._wait_until - self._environment.monotonic()))


def _nothing(_outcome: Any) -> None:
    """Do nothing: no client waits."""
