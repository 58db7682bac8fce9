"""Port through which staging asks for leases on heads.

A lease is no part of a session's log, so this package does not know which client holds which lease.
"""

from __future__ import annotations

from typing import Protocol

from sessiond.errors import InvalidParams, LeaseLost


class HeadLeases(Protocol):
    """The current leases on a session's heads."""

    def require(self, head: str, lease_id: str | None) -> None:
        """Raise unless the call may move `head` under `lease_id`.

        Raises InvalidParams, LeaseHeld, LeaseLost.
        """
        ...

    def is_held(self, head: str) -> bool:
        """Return whether a client holds a lease on the head."""
        ...


def lease_lost(lease_id: str) -> LeaseLost:
    """Return the refusal for a lease that is over or never existed."""
    return LeaseLost(
        "this lease is over: its time, its release, its connection or a restart ended it. Nothing"
        " was written; acquire another one and look at the head before you go on",
        lease_id=lease_id,
    )


def lease_of_another(leased: str, named: str) -> InvalidParams:
    """Return the refusal for a live lease on another head than the call moves."""
    return InvalidParams(
        f"this lease is for the head {leased}, and the call moves the head {named}; name the head"
        f" {leased}, or acquire a lease on {named}",
        path="lease_id",
        head=leased,
    )
