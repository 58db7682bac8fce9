"""The plan of a compaction, as callers and summarizers get it."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["CompactionPlan", "PlanFacts", "PlannedFiles"]


class PlannedFiles(Struct, frozen=True):
    """Files that the summarised messages were about, sorted."""

    read: tuple[str, ...]
    modified: tuple[str, ...]


class PlanFacts(Struct, frozen=True):
    """The entries to summarise and the first kept entry, without the prompt."""

    plan_id: str
    leaf_id: str
    first_kept_entry_id: str
    summarize: list[str]
    turn_prefix: list[str]
    previous_summary: str | None
    files: PlannedFiles
    tokens_before: int


class CompactionPlan(PlanFacts, frozen=True):
    """The entries to summarise, the first kept entry, and the prompt for the summary.

    A plan is bound to the leaf that it was made at: `session/compact` accepts the plan only while
    the head has that leaf.
    """

    prompt: str

    def facts(self) -> PlanFacts:
        """Return the plan without its prompt."""
        return PlanFacts(*(getattr(self, name) for name in PlanFacts.__struct_fields__))
