"""Parameters of the methods that move a head: the head, and the condition of the move."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from sessiond.limits import LEASE_TTL_MS_MAX, LEASE_TTL_MS_MIN
from sessiond.methods._shared.common import SessionParams
from sessiond.model.ids import MAIN, HeadName
from sessiond.session.append import Expected
from sessiond.session.moves import Condition

__all__ = ["LeaseId", "MoveParams", "Ttl"]

Ttl = Annotated[int, Meta(ge=LEASE_TTL_MS_MIN, le=LEASE_TTL_MS_MAX)]
LeaseId = Annotated[str, Meta(min_length=1, max_length=128)]


class MoveParams(SessionParams):
    """Head to move; its expected position; the lease that permits the move."""

    head: HeadName = MAIN
    expected: Expected | None = None
    lease_id: LeaseId | None = None

    @property
    def condition(self) -> Condition:
        """Condition of the move."""
        return Condition(self.expected, self.lease_id)
