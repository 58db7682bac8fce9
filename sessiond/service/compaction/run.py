"""One compaction that the daemon carries out: its asker, its state, and its result."""

from __future__ import annotations

from typing import Any

import anyio
from msgspec import Raw, Struct, UnsetType

from sessiond.errors import SessiondError
from sessiond.model.plans import CompactionPlan
from sessiond.service.actor.actor import SessionActor
from sessiond.service.compaction.result import CompactResult
from sessiond.service.ports import Ticket

__all__ = ["CompactionRequest", "CompactionRun"]


class CompactionRequest(Struct, frozen=True):
    """Head to compact; focus of the summary; lease and idempotency key of the commit."""

    head: str
    instructions: str | None = None
    lease_id: str | None = None
    idempotency_key: str | None = None


class CompactionRun:
    """Running compaction."""

    def __init__(
        self,
        actor: SessionActor,
        wish: CompactionRequest,
        asker: Any,
        origin_id: Raw | UnsetType,
        *,
        automatic: bool,
    ) -> None:
        self.actor = actor
        self.wish = wish
        self.asker = asker
        self.origin_id = origin_id
        self.automatic = automatic
        self.waiting: set[Ticket] = set()
        """Tickets that wait for the result."""
        self.committing = False
        self.plan: CompactionPlan | None = None
        self.scope = anyio.CancelScope()
        self.done = anyio.Event()
        self.result: CompactResult | None = None
        self.error: SessiondError | None = None

    def stop(self, error: SessiondError) -> None:
        """End the run, unless it has reached its write."""
        if not self.committing:
            self.error = error
            self.scope.cancel()
