"""What the daemon answers about the size of a context and how to make it smaller. As lenient as `results`."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from sessiond_client import wire

__all__ = [
    "READ_PLANNED",
    "READ_USAGE",
    "CompactionPlan",
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


class CompactionPlan(Struct, frozen=True):
    """What to summarise. Send `plan_id` back with the summary that `prompt` asks for."""

    plan_id: str
    leaf_id: str
    first_kept_entry_id: str
    prompt: str
    summarize: list[str] = []
    turn_prefix: list[str] = []
    previous_summary: str | None = None
    files: PlannedFiles = PlannedFiles()
    tokens_before: int | None = None


class PlannedCompaction(Struct, frozen=True):
    """A plan; None, and why, when there is nothing to do."""

    plan: CompactionPlan | None = None
    reason: str | None = None


READ_PLANNED: Final = wire.reader(PlannedCompaction)
READ_USAGE: Final = wire.reader(WindowUsage)
