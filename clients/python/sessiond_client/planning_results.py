"""What the daemon answers about the size of a context and how to make it smaller. As lenient as `results`."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from sessiond_client import wire

__all__ = [
    "READ_BRANCH_PLAN",
    "READ_NAVIGATED",
    "READ_PLANNED",
    "READ_USAGE",
    "BranchPlan",
    "CompactionPlan",
    "Navigated",
    "PlanFacts",
    "PlannedCompaction",
    "PlannedFiles",
    "Totals",
    "WindowUsage",
]


class Totals(Struct, frozen=True):
    """What the assistant messages of a session say they have cost."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    total_tokens: int = 0
    cost: float = 0.0


class WindowUsage(Struct, frozen=True):
    """How full the model's window is at a head."""

    tokens: int
    window: int
    reserve: int
    should_compact: bool
    totals: Totals = Totals()


class PlannedFiles(Struct, frozen=True):
    """Files that the summarised messages were about."""

    read: list[str] = []
    modified: list[str] = []


class PlanFacts(Struct, frozen=True):
    """What is summarised and what is kept."""

    plan_id: str
    leaf_id: str
    first_kept_entry_id: str
    summarize: list[str] = []
    turn_prefix: list[str] = []
    previous_summary: str | None = None
    files: PlannedFiles = PlannedFiles()
    tokens_before: int | None = None


class CompactionPlan(PlanFacts, frozen=True, kw_only=True):
    """What to summarise. Send `plan_id` back with the summary that `prompt` asks for."""

    prompt: str


class PlannedCompaction(Struct, frozen=True):
    """A plan; None, and why, when there is nothing to do."""

    plan: CompactionPlan | None = None
    reason: str | None = None


class BranchPlan(Struct, frozen=True):
    """What a head would leave behind. Send `details` with the summary to branch or navigate."""

    entries: list[str]
    files: PlannedFiles = PlannedFiles()
    details: Any = None
    tokens: int | None = None
    common_ancestor_id: str | None = None
    leaf_id: str | None = None
    prompt: str | None = None


class Navigated(Struct, frozen=True):
    """Where the head is now, and what goes into the editor."""

    leaf_id: str | None
    head: str = "main"
    seq: int | None = None
    moved: bool = True
    editor_text: str | None = None


READ_BRANCH_PLAN: Final = wire.reader(BranchPlan)
READ_NAVIGATED: Final = wire.reader(Navigated)
READ_PLANNED: Final = wire.reader(PlannedCompaction)
READ_USAGE: Final = wire.reader(WindowUsage)
