"""Leases on the heads of a session that several daemons serve.

The leases stand where the session's lines stand, and an append takes effect only under the leases that
its writer saw. So a lease counts against every daemon.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from msgspec import Struct


class Leased(Struct, frozen=True):
    """A lease on a head, as all daemons see it."""

    head: str
    lease_id: str
    epoch: int
    ends_ns: int
    """Its end, in nanoseconds since 1970, by the store's clock."""
    daemon: str
    """The daemon with the holder's connection, which ends the lease with the connection."""
    client_id: str | None
    name: str | None


class Leasing(Protocol):
    """The leases of a session while they are changed."""

    now_ns: int
    daemon: str
    by_head: dict[str, Leased]
    """The leases that have not ended."""

    def new_epoch(self) -> int:
        """Return a number above those of all earlier leases. Raises StorageError."""
        ...


LeaseChange = Callable[[Leasing], Any]
"""Changes `by_head` and returns the outcome. Called again if another daemon was faster."""


class LeaseTable(Protocol):
    """The leases of one session."""

    def seen(self) -> tuple[Leased, ...]:
        """Return the leases as they were seen last: an equal object means equal leases. Waits for nothing."""
        ...

    @property
    def is_stale(self) -> bool:
        """True if there may be leases without a holder, which the next change drops. Waits for nothing.

        A daemon that has ended leaves such leases, and so does a failed change that has taken effect.
        """
        ...

    def seconds_left(self, lease: Leased) -> float:
        """Return how long a lease lasts by the store's clock. Waits for nothing."""
        ...

    def change(self, changes: Sequence[LeaseChange]) -> list[Any]:
        """Make all changes, or none, and return their outcomes. Blocking.

        Raises StorageError, Replaced for a session that is gone.
        """
        ...
