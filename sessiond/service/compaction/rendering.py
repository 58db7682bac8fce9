"""Compactions of files that hold the messages which replace a context, not what these are made of.

A summary and a first kept entry become messages: the summary, as a message of the user, then the
messages of the kept entries. These are the messages of the context at this moment, and the file has
nothing that would tell later which entries they came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Raw

from sessiond.dialects.base import ContextLine
from sessiond.dialects.compose import said_by_user
from sessiond.errors import EntryInvalid, PlanStale, TooLarge
from sessiond.limits import PLAN_BYTES_MAX
from sessiond.service.actor.actor import SessionActor
from sessiond.service.log.open_session import OpenSession
from sessiond.session.compaction.compaction import CompactRequest, Render, kept_seqs, line_to_keep
from sessiond.session.draft import Draft
from sessiond.session.index import Session


def lines_to_read(
    actor: SessionActor, request: CompactRequest
) -> Callable[[Session], Iterable[int]]:
    """Return the function that yields the stored lines which a compaction looks at."""

    def reads(session: Session) -> Iterable[int]:
        yield from line_to_keep(session, request)
        head = session.heads.get(request.head)
        if session.rules.pointer or head is None or request.messages:
            return
        kept = session.node(request.first_kept or "")
        seqs = kept_seqs(session.parents.__getitem__, session.kinds.__getitem__, head.leaf, kept)
        if sum(map(actor.opened.journal.line_bytes, seqs)) <= PLAN_BYTES_MAX:
            yield from seqs

    return reads


def renderer(opened: OpenSession) -> Render:
    """Return the function that makes messages of a summary and the lines of the kept entries."""

    def render(draft: Draft, summary: str, seqs: list[int]) -> list[Raw]:
        dialect = opened.dialect
        messages = [said_by_user(dialect, summary, draft.now)]
        lines: list[ContextLine] = []
        for seq in seqs:
            line = draft.known_line_of(seq)
            if line is None:
                raise _unread(opened, draft, seqs)
            lines.append(ContextLine(draft.id_of(seq) or "", draft.kind(seq), line))
        for message in dialect.context(lines):
            reading = dialect.read(message.body)
            if len(messages) == 1 and reading is not None and reading.is_result:
                raise EntryInvalid(
                    "the kept entries would begin with a tool result whose call is gone;"
                    " keep from the message with the call on, or from the next one",
                    entry_id=message.source,
                    path="first_kept_entry_id",
                )
            messages.append(Raw(message.body))
        return messages

    return render


def _unread(opened: OpenSession, draft: Draft, seqs: list[int]) -> PlanStale | TooLarge:
    """Return the refusal of a compaction whose kept entries were not read."""
    stored = [seq for seq in seqs if seq <= draft.base_seq]
    size = sum(map(opened.journal.line_bytes, stored))
    if size > PLAN_BYTES_MAX:
        return TooLarge(
            "the kept entries are too large to be stored in one line; keep fewer entries",
            limit=PLAN_BYTES_MAX,
            size=size,
        )
    leaf_id = draft.id_of(seqs[-1]) or ""
    return PlanStale(
        "the head moved while the compaction was on its way; call again",
        plan_leaf_id=leaf_id,
        leaf_id=leaf_id,
    )
