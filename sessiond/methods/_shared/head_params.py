"""Parameters and errors of the methods that move a head under a condition."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from sessiond.errors import (
    HeadNotFound,
    LeaseHeld,
    LeaseLost,
    PreconditionFailed,
    SessionArchived,
    SessionReadOnly,
)
from sessiond.limits import LEASE_TTL_MS_MAX, LEASE_TTL_MS_MIN
from sessiond.methods._shared.common import SessionParams
from sessiond.model.ids import MAIN, HeadName
from sessiond.session.append_request import Expected
from sessiond.session.moves import Condition

Ttl = Annotated[int, Meta(ge=LEASE_TTL_MS_MIN, le=LEASE_TTL_MS_MAX)]
LeaseId = Annotated[str, Meta(min_length=1, max_length=128)]
MOVE_ERRORS: Final = (
    SessionArchived,
    SessionReadOnly,
    PreconditionFailed,
    HeadNotFound,
    LeaseHeld,
    LeaseLost,
)
"""Errors of every method that moves a head."""


class MoveParams(SessionParams):
    """Head to move; its expected position; the lease that permits the move."""

    head: HeadName = MAIN
    expected: Expected | None = None
    lease_id: LeaseId | None = None

    @property
    def condition(self) -> Condition:
        """Condition of the move."""
        return Condition(self.expected, self.lease_id)
