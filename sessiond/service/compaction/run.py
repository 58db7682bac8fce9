"""One compaction that the daemon carries out: its request and its plan."""

from __future__ import annotations

from typing import Any

from msgspec import Raw, Struct, UnsetType

from sessiond.model.plans import CompactionPlan
from sessiond.service.actor.actor import SessionActor
from sessiond.service.compaction.result import CompactResult
from sessiond.service.summaries.runs import Run


class CompactionRequest(Struct, frozen=True):
    """Head to compact; focus of the summary; lease and key of the commit; first entry to keep."""

    head: str
    instructions: str | None = None
    lease_id: str | None = None
    idempotency_key: str | None = None
    first_kept_entry_id: str | None = None


class CompactionRun(Run[CompactResult]):
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
        super().__init__(actor, asker, origin_id, automatic=automatic)
        self.wish = wish
        self.plan: CompactionPlan | None = None

    def give_up_unasked(self) -> bool:
        """Give up an automatic run that no caller waits for; return whether it was one."""
        self.given_up = self.automatic and not self.waiting
        return self.given_up
