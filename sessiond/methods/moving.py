"""What every method that moves a head takes: which one, and under which condition."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from sessiond.limits import LEASE_TTL_MS_MAX, LEASE_TTL_MS_MIN
from sessiond.methods.common import SessionParams
from sessiond.model.ids import MAIN, HeadName
from sessiond.session.append import Expected
from sessiond.session.moves import Condition

__all__ = ["LeaseId", "MoveParams", "Ttl"]

Ttl = Annotated[int, Meta(ge=LEASE_TTL_MS_MIN, le=LEASE_TTL_MS_MAX)]
LeaseId = Annotated[str, Meta(min_length=1, max_length=128)]


class MoveParams(SessionParams):
    """Which head; where it is believed to be; the lease under which it is moved."""

    head: HeadName = MAIN
    expected: Expected | None = None
    lease_id: LeaseId | None = None

    @property
    def condition(self) -> Condition:
        """Under which condition to move it."""
        return Condition(self.expected, self.lease_id)
