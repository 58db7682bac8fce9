"""session/labels: return every label in force, in the order of the entries."""

from __future__ import annotations

from typing import Any

from anyio import to_thread
from msgspec import Struct

from sessiond.limits import INLINE_WALK_STEPS
from sessiond.methods._shared.common import SessionParams, ask, page_limit
from sessiond.methods._shared.place import cursor_numbers, cursor_of
from sessiond.methods._shared.rows import fitting, is_small
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.actor import SessionActor
from sessiond.service.client import Client
from sessiond.session.index import LabelState


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

    def look(actor: SessionActor) -> Any:
        after = 0
        if params.cursor is not None:
            (after,) = cursor_numbers(actor.opened.session, params.cursor, 1, 1)
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
    more = cursor_of(opened.session, (wanted[count - 1],)) if count < len(wanted) else None
    return LabelsResult(rows, more)


METHOD = Method(name="session/labels", params=LabelsParams, result=LabelsResult, handle=handle)
