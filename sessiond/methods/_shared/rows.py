"""Entries as rows of an answer: spliced from stored lines, no payload decoded."""

from __future__ import annotations

from collections.abc import Sequence

from sessiond.limits import (
    INLINE_WALK_STEPS,
    RESULT_BYTES_MAX,
)
from sessiond.methods._shared.common import encode
from sessiond.service.actor.actor import SessionActor
from sessiond.service.log.open_session import OpenSession


def entry_row(opened: OpenSession, seq: int, line: bytes, more: bytes = b"") -> bytes:
    """Return `{"seq": …, "entry": …}` with `more` members at its end."""
    return b'{"seq":%d,"entry":%s%s}' % (seq, opened.dialect.wire(line), more)


def details(actor: SessionActor, seq: int, upto: int) -> bytes:
    """Return the members for an entry's children and label, as of the last line `upto`."""
    children = actor.children.count(seq, upto=upto)
    label = encode(actor.opened.session.label_at(seq, upto))
    return b',"children":%d,"label":%s' % (children, label)


def is_small(opened: OpenSession, seqs: Sequence[int]) -> bool:
    """Return whether these lines are few enough bytes to be read on the loop."""
    return sum(map(opened.journal.line_bytes, seqs)) <= opened.inline_bytes


def fitting(opened: OpenSession, seqs: Sequence[int], limit: int) -> int:
    """Return how many of these lines one answer holds: at most `limit`, at least one if there is one."""
    size = count = 0
    for seq in seqs[:limit]:
        size += opened.journal.line_bytes(seq)
        if count and size > RESULT_BYTES_MAX // 2:
            break
        count += 1
    return count


def children_are_near(actor: SessionActor) -> bool:
    """Return whether the loop can bring the index of children up to date."""
    return actor.opened.session.seq - actor.children.seq <= INLINE_WALK_STEPS
