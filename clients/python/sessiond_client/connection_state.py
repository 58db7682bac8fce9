"""The state that a connection carries: leases end with it, presence is announced on the next one.

Law: a lease is counted from before it was asked for, on a clock that only goes forward, so it is
over here no later than at the daemon. It ends with its connection, and what ended once does
not begin again: who wants the head again acquires it anew, and looks first. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from sessiond_client.calls import Call
from sessiond_client.errors import LeaseLost, SessiondClientError
from sessiond_client.generated.results import Lease
from sessiond_client.limits import LEASE_RENEWALS

__all__ = ["ConnectionState", "LeaseState"]


class LeaseState:
    """The time in which a head is this client's; times are seconds of the client's clock."""

    def __init__(self, ttl: float, clock: Callable[[], float]) -> None:
        self.ttl_ms = round(ttl * 1000)
        self.wake: Callable[[], None] | None = None
        """Told once, when it is lost."""
        self.ends_at = 0.0
        """Time at which the lease ends unless it is renewed."""
        self.renew_at = 0.0
        """Time to renew the lease: early enough for another try."""
        self.is_lost = False
        """True if the lease is known to be over."""
        self._ttl = ttl
        self._clock = clock
        self._lease: Lease | None = None
        self._why: SessiondClientError | None = None

    def require(self) -> Lease:
        """Return the lease while it holds. Raises LeaseLost."""
        if self._lease is None:
            raise LeaseLost("the lease was not acquired: use it in `with`")
        if self._clock() >= self.ends_at:
            self.lose(None)
        if self.is_lost:
            why = "it was not renewed in time" if self._why is None else str(self._why)
            raise LeaseLost(f"the lease is over ({why}): acquire it again") from self._why
        return self._lease

    def granted(self, lease: Lease, asked_at: float) -> None:
        """Note a lease that was given, or renewed, for a request at that moment or later."""
        self._lease = lease
        self.ends_at = asked_at + self._ttl
        self.renew_at = asked_at + self._ttl / LEASE_RENEWALS

    def lose(self, why: SessiondClientError | None) -> None:
        """Record why the lease is over; None: its time has passed."""
        if not self.is_lost:
            self.is_lost = True
            self._why = why
            if self.wake is not None:
                self.wake()


class ConnectionState:
    """Leases and presence of one client, over any number of connections."""

    def __init__(self) -> None:
        self._present: dict[object, Mapping[str, object]] = {}
        self._tenures: set[LeaseState] = set()

    def begin(self, tenure: LeaseState) -> None:
        """Count a lease among those that are lost with the connection."""
        self._tenures.add(tenure)

    def end(self, tenure: LeaseState) -> None:
        """Forget a lease: its end no longer matters."""
        self._tenures.discard(tenure)

    def done(self, call: Call) -> None:
        """Note that the daemon did what was asked."""
        params = call.params
        session_id = params.get("session_id")
        if call.method == "session/presence" and "state" in params:
            if params["state"] is None:
                self._present.pop(session_id, None)
            else:
                self._present[session_id] = params
        elif call.method in {"session/close", "session/delete"}:
            # With these it is over at the daemon, too.
            self._present.pop(session_id, None)

    def again(self) -> Iterator[Mapping[str, object]]:
        """Yield the params of every `session/presence` to be said on a new connection."""
        yield from self._present.values()

    def leave_to_parent(self) -> None:
        """Leave leases and presence to the process that this one was forked from, without a word to the program."""
        self._present.clear()
        for tenure in self._tenures:
            tenure.wake = None
        self.lost(LeaseLost("it is that of the process which this one was forked from"))

    def lost(self, error: SessiondClientError) -> None:
        """Drop the leases, which are gone with the connection."""
        tenures, self._tenures = self._tenures, set()
        for tenure in tenures:
            tenure.lose(error)
