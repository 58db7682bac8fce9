"""session/labels: return every label in force, in the order of the entries."""

from __future__ import annotations

from typing import Any

from anyio import to_thread
from msgspec import Struct

from sessiond.errors import InvalidParams
from sessiond.limits import INLINE_WALK_STEPS
from sessiond.methods._shared.common import (
    Call,
    Client,
    Method,
    SessionParams,
    ask,
    cursor_numbers,
    page_limit,
)
from sessiond.methods._shared.rows import fitting, is_small
from sessiond.service.actor.actor import SessionActor
from sessiond.session.index import LabelState

__all__ = ["METHOD"]


class LabelsParams(SessionParams):
    """Page of the labels."""

    limit: int | None = None
    cursor: str | None = None


class LabelRow(Struct, frozen=True):
    """Entry, its label, and when the label was set; "" where its line has no time."""

    entry_id: str
    label: str
    timestamp: str


class LabelsResult(Struct, frozen=True):
    """Page of labels, sorted by the `seq` of the labelled entry."""

    labels: list[LabelRow]
    next_cursor: str | None


def handle(client: Client, params: LabelsParams, call: Call[Client]) -> Any:
    """Answer from the index; only the times are read from the file."""
    limit = page_limit(params.limit)
    after = _cursor(params.cursor)

    def look(actor: SessionActor) -> Any:
        # A copy: the writer may set labels while a worker thread reads these.
        labels = actor.opened.session.labels.copy()
        seqs = [state.seq for state in labels.values()]
        if len(seqs) <= INLINE_WALK_STEPS and is_small(actor.opened, seqs):
            return _page(actor, labels, limit, after)
        return actor.later(call, lambda: to_thread.run_sync(_page, actor, labels, limit, after))

    return ask(client, call, params.session_id, look)


def _page(
    actor: SessionActor, labels: dict[int, LabelState], limit: int, after: int
) -> LabelsResult:
    opened = actor.opened
    wanted = sorted(seq for seq in labels if seq > after)
    count = fitting(opened, [labels[seq].seq for seq in wanted], limit)
    rows = [
        LabelRow(opened.session.names[seq], labels[seq].label, opened.line_time(labels[seq].seq))
        for seq in wanted[:count]
    ]
    return LabelsResult(rows, str(wanted[count - 1]) if count < len(wanted) else None)


def _cursor(text: str | None) -> int:
    """Return the cursor's position, which is the `seq` of the last entry of the page before."""
    if text is None:
        return 0
    found = cursor_numbers(text, 1)
    if found is None:
        raise InvalidParams("not a cursor that session/labels returned", path="cursor")
    return found[0]


METHOD = Method(name="session/labels", params=LabelsParams, result=LabelsResult, handle=handle)
