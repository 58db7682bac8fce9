"""The plans of compactions, merges, squashes and left branches, as callers and summarizers get them."""

from __future__ import annotations

from msgspec import Raw, Struct


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


class MergeSource(Struct, frozen=True):
    """The part of one session in a plan: its leaf, and the entries behind the quoted messages."""

    session_id: str
    leaf_id: str | None
    entry_ids: list[str]


class PlanMergeResult(Struct, frozen=True):
    """Prompt for a model, and the sources it was made of: this session first."""

    prompt: str
    sources: list[MergeSource]


class SquashPlan(Struct, frozen=True):
    """Prompt for a summary of chosen entries, and the entries that the prompt quotes."""

    prompt: str
    entry_ids: list[str]


class PlanBranchSummaryResult(Struct, frozen=True):
    """Entries to summarise, oldest first, and the prompt; null if there is nothing to tell.

    `details` is stored with the summary by session/branch, so that later plans know the files.
    """

    entries: list[str]
    files: PlannedFiles
    details: Raw
    tokens: int
    common_ancestor_id: str | None
    leaf_id: str | None
    prompt: str | None
