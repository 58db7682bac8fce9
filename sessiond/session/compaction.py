"""Compaction: one entry that stands for everything before it on its branch."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, Raw, Struct, UnsetType

from sessiond.errors import EntryInvalid, InvalidParams
from sessiond.model.entries import Compaction
from sessiond.model.ids import MAIN
from sessiond.session.append import AppendRequest, Expected, Receipt, append
from sessiond.session.draft import Draft

__all__ = ["CompactRequest", "compact"]


class CompactRequest(Struct):
    """One compact call: a summary and what to keep, or replacement messages."""

    session_id: str
    summary: str | UnsetType = UNSET
    first_kept_entry_id: str | UnsetType | None = UNSET
    messages: Sequence[Raw] | UnsetType = UNSET
    tokens_before: int | UnsetType = UNSET
    details: Raw | UnsetType = UNSET
    head: str = MAIN
    expected: Expected | None = None
    lease_id: str | None = None
    idempotency_key: str | None = None


def compact(draft: Draft, request: CompactRequest) -> Receipt:
    """Stage the compaction below the head's leaf. The receipt is that of an append."""
    if isinstance(request.messages, UnsetType):
        entry = _pointer(request)
    else:
        entry = _replacement(request, request.messages)
    return append(
        draft,
        AppendRequest(
            session_id=request.session_id,
            entries=(entry,),
            head=request.head,
            expected=request.expected,
            lease_id=request.lease_id,
            idempotency_key=request.idempotency_key,
        ),
    )


def _pointer(request: CompactRequest) -> Compaction:
    if isinstance(request.summary, UnsetType) or not request.summary.strip():
        raise EntryInvalid("the summary is empty", path="summary")
    kept = request.first_kept_entry_id
    return Compaction(
        summary=request.summary,
        first_kept_entry_id=None if isinstance(kept, UnsetType) else kept,
        tokens_before=request.tokens_before,
        details=request.details,
    )


def _replacement(request: CompactRequest, messages: Sequence[Raw]) -> Compaction:
    if request.expected is None or isinstance(request.expected.leaf_id, UnsetType):
        raise InvalidParams(
            "messages replace a context the caller saw: say which with expected.leaf_id",
            path="expected.leaf_id",
        )
    return Compaction(
        messages=list(messages), tokens_before=request.tokens_before, details=request.details
    )
