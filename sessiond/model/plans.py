"""What a compaction would summarise, as callers and writers of summaries are told."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["CompactionPlan", "PlanFacts", "PlannedFiles"]


class PlannedFiles(Struct, frozen=True):
    """Files that the summarised messages were about, sorted."""

    read: tuple[str, ...]
    modified: tuple[str, ...]


class PlanFacts(Struct, frozen=True):
    """What is to be summarised and what is kept, without the prompt."""

    plan_id: str
    leaf_id: str
    first_kept_entry_id: str
    summarize: list[str]
    turn_prefix: list[str]
    previous_summary: str | None
    files: PlannedFiles
    tokens_before: int


class CompactionPlan(PlanFacts, frozen=True):
    """What to summarise, what is kept, and the prompt that asks for the summary.

    Bound to the leaf it was made at: `session/compact` takes it while that is still so.
    """

    prompt: str

    def facts(self) -> PlanFacts:
        """The same for somebody who is given the prompt beside it."""
        return PlanFacts(*(getattr(self, name) for name in PlanFacts.__struct_fields__))
