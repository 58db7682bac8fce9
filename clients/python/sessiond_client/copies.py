"""What bringing sessions together answers. As lenient as `results`."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from sessiond_client import wire
from sessiond_client.results import AppendedEntry, SessionInfo

__all__ = ["READ_MERGED", "READ_MERGE_PLAN", "MergePlan", "MergeSource", "Merged"]


class MergeSource(Struct, frozen=True):
    """What a plan quotes of one session."""

    session_id: str
    leaf_id: str | None = None
    entry_ids: list[str] = []


class MergePlan(Struct, frozen=True):
    """The prompt for the text of a merge, and what it was made of: this session first."""

    prompt: str
    sources: list[MergeSource]


class Merged(Struct, frozen=True):
    """The entry with the text; the session if a new one was made, or it was a dry run."""

    entry: AppendedEntry | None = None
    leaf_id: str | None = None
    seq: int | None = None
    session: SessionInfo | None = None


READ_MERGE_PLAN: Final = wire.reader(MergePlan)
READ_MERGED: Final = wire.reader(Merged)
