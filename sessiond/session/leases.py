"""What staging asks of whoever gives heads to one client alone.

A lease is no part of a session's log, so who has which one is not known here.
"""

from __future__ import annotations

from typing import Protocol

from sessiond.errors import InvalidParams, LeaseLost

__all__ = ["HeadLeases", "lease_lost", "lease_of_another"]


class HeadLeases(Protocol):
    """Who alone may move which head now."""

    def require(self, head: str, lease_id: str | None) -> None:
        """Raises InvalidParams, LeaseHeld, LeaseLost."""
        ...

    def is_held(self, head: str) -> bool:
        """Whether somebody has the head for himself."""
        ...


def lease_lost(lease_id: str) -> LeaseLost:
    """The refusal of whoever names a lease that is over, or never was."""
    return LeaseLost(
        "this lease is over, by its time, its release, its connection or a restart, and nothing"
        " was written; acquire another one and look at the head before you go on",
        lease_id=lease_id,
    )


def lease_of_another(leased: str, named: str) -> InvalidParams:
    """Return the refusal of a lease that is live, but for another head than the call moves."""
    return InvalidParams(
        f"this lease is for the head {leased}, and the call moves the head {named}; name the head"
        f" {leased}, or acquire a lease on {named}",
        path="lease_id",
        head=leased,
    )
