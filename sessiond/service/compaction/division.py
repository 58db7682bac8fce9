"""Division of a session's lines into what a compaction summarises and keeps.

Law: a plan changes nothing and is not kept, except the touched files of the latest plans: they go
into the details of the compaction, and are read again after a restart.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from sessiond.dialects.base import ContextLine
from sessiond.errors import EntryInvalid
from sessiond.model.parsed_message import ParsedMessage
from sessiond.model.row import MESSAGE_KINDS, Kind
from sessiond.service.context.context_lines import context_line
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.plan_lines import plan_lines
from sessiond.session.compaction.cut_point import (
    Parts,
    Past,
    Reason,
    Step,
    cut_before,
    divide,
    divide_at,
)
from sessiond.session.compaction.policy import Policy
from sessiond.session.compaction.touched_files import TouchedFiles, touched
from sessiond.session.context.context import is_closed, plan_context
from sessiond.session.context.tokens import Estimator


class Division(Struct, frozen=True):
    """Parts that a compaction at an entry would summarise and keep."""

    past: Past
    parts: Parts


def plan_at(
    opened: OpenSession, leaf: int, policy: Policy, estimator: Estimator, budget: int | None
) -> Division | Reason:
    """Return what to summarise at `leaf` so that about `budget` tokens are kept, or why nothing.

    Without a budget the policy decides. Blocks; raises StorageError, TooLarge.
    """
    session = opened.session
    if leaf and session.kinds[leaf] == Kind.COMPACTION:
        return "compacted"
    past, steps = _read(opened, leaf, estimator)
    if budget is None:
        budget = max(policy.preset.keep_tokens_min, policy.keep_recent_tokens)
    found = divide(steps, past, budget, policy.preset)
    return found if isinstance(found, str) else Division(past, found)


def plan_before(
    opened: OpenSession, leaf: int, policy: Policy, estimator: Estimator, first_kept: str
) -> Division | Reason:
    """Return what to summarise at `leaf` so that the context is kept from an entry on.

    Blocks; raises EntryInvalid, StorageError, TooLarge.
    """
    session = opened.session
    if leaf and session.kinds[leaf] == Kind.COMPACTION:
        return "compacted"
    past, steps = _read(opened, leaf, estimator)
    cut = cut_before(steps, first_kept)
    if cut is None:
        raise EntryInvalid(
            "the entry is not on the path of the head behind the last compaction, or the first message"
            " from there on is a tool result: name another entry",
            entry_id=first_kept,
            path="first_kept_entry_id",
        )
    found = divide_at(steps, past, cut, policy.preset)
    return found if isinstance(found, str) else Division(past, found)


def files_before(opened: OpenSession, leaf: int, first_kept: int, policy: Policy) -> TouchedFiles:
    """Return the touched files before `first_kept` for a compaction at `leaf`. Blocks."""
    past, steps = _read(opened, leaf, policy.preset.estimator)
    kept = opened.session.names[first_kept]
    readings: list[ParsedMessage] = list(past.messages)
    for step in steps:
        if step.id == kept:
            break
        if step.reading is not None:
            readings.append(step.reading)
    return touched(readings, past.files, policy.preset.files)


def _read(opened: OpenSession, leaf: int, estimator: Estimator) -> tuple[Past, list[Step]]:
    """Return what an earlier compaction left, and the entries since, with those that it kept."""
    session, dialect = opened.session, opened.dialect
    seqs = plan_context(session, leaf).seqs
    found = plan_lines(
        opened.journal,
        seqs,
        "the context is larger than a plan may read: compact with summary and first_kept_entry_id",
    )
    compaction = session.compaction_refs[leaf]
    lines = [
        context_line(opened, seq, line, compaction, lists=False)
        for seq, line in zip(seqs, found, strict=True)
    ]
    said: dict[str, ParsedMessage] = {}
    replaced: list[ParsedMessage] = []
    for message in dialect.context(lines):
        reading = dialect.read(message.body)
        if reading is None:
            continue
        if compaction and message.source == session.names[compaction]:
            replaced.append(reading)
        else:
            said[message.source] = reading
    steps = [
        _step(opened, seq, said, estimator)
        for seq in _seqs(opened, compaction, leaf)
        # Where only a message can be kept, a plan knows of nothing else.
        if session.kinds[seq] in MESSAGE_KINDS or not session.rules.strict_kept
    ]
    return _past(opened, compaction, lines, replaced), steps


def _seqs(opened: OpenSession, compaction: int, leaf: int) -> list[int]:
    """Return the path from the first entry that the last compaction kept, without that compaction."""
    session = opened.session
    found: list[int] = []
    at = leaf
    while at > compaction:
        found.append(at)
        at = session.parents[at]
    first = session.kept_from.get(compaction, 0)
    if is_closed(session, leaf):
        return []
    if compaction and first:
        at = session.parents[compaction]
        while at >= first:
            found.append(at)
            at = session.parents[at]
    found.reverse()
    return found


def _step(
    opened: OpenSession, seq: int, said: dict[str, ParsedMessage], estimator: Estimator
) -> Step:
    session = opened.session
    reading = said.get(session.names[seq])
    tokens = 0 if reading is None else estimator.message(reading)
    return Step(session.names[seq], reading, tokens, session.kinds[seq] == Kind.COMPACTION)


def _past(
    opened: OpenSession,
    compaction: int,
    lines: Sequence[ContextLine],
    replaced: list[ParsedMessage],
) -> Past:
    if not compaction:
        return Past()
    summary = opened.dialect.summary(lines[0].line)
    return Past(
        summary.text,
        TouchedFiles(summary.read, summary.modified),
        opened.session.names[compaction],
        () if summary.text is not None else tuple(replaced),
    )
