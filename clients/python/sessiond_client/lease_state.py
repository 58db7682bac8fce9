"""A lease as its holder's side knows it: until when, and whether it is over. Pure.

Law: it is counted from before it was asked for, on a clock that only goes forward, so it is
over here no later than at the daemon. It ends with its connection, and what ended once does
not begin again: who wants the head again acquires it anew, and looks first.
"""

from __future__ import annotations

from collections.abc import Callable

from sessiond_client.errors import LeaseLost, SessiondClientError
from sessiond_client.generated.results import Lease
from sessiond_client.limits import LEASE_RENEWALS

__all__ = ["LeaseState"]


class LeaseState:
    """The time in which a head is this client's; times are seconds of the client's clock."""

    def __init__(self, ttl: float, clock: Callable[[], float]) -> None:
        self.ttl_ms = round(ttl * 1000)
        self.wake: Callable[[], None] | None = None
        """Told once, when it is lost."""
        self._ttl = ttl
        self._clock = clock
        self._lease: Lease | None = None
        self._asked_at = 0.0
        self._why: SessiondClientError | None = None
        self._is_lost = False

    def require(self) -> Lease:
        """Return the lease while it holds. Raises LeaseLost."""
        if self._lease is None:
            raise LeaseLost("the lease was not acquired: use it in `with`")
        if self._clock() >= self.ends_at:
            self.lose(None)
        if self._is_lost:
            why = "it was not renewed in time" if self._why is None else str(self._why)
            raise LeaseLost(f"the lease is over ({why}): acquire it again") from self._why
        return self._lease

    @property
    def ends_at(self) -> float:
        """Return the time at which the lease ends unless it is renewed."""
        return self._asked_at + self._ttl

    @property
    def renew_at(self) -> float:
        """Return the time to renew the lease: early enough for another try."""
        return self._asked_at + self._ttl / LEASE_RENEWALS

    @property
    def is_lost(self) -> bool:
        """True if the lease is known to be over."""
        return self._is_lost

    def granted(self, lease: Lease, asked_at: float) -> None:
        """Note a lease that was given, or renewed, for a request at that moment or later."""
        self._lease = lease
        self._asked_at = asked_at

    def lose(self, why: SessiondClientError | None) -> None:
        """Record why the lease is over; None: its time has passed."""
        if not self._is_lost:
            self._is_lost = True
            self._why = why
            if self.wake is not None:
                self.wake()
