"""Entries that a head abandons when it goes to another branch, read from the session's lines."""

from __future__ import annotations

from sessiond.dialects.base import ContextLine
from sessiond.model.parsed_message import ParsedMessage
from sessiond.model.row import Kind
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.plan_lines import plan_lines
from sessiond.session.compaction.branching import BranchMaterial, LeftStep, entries_left, gather
from sessiond.session.compaction.policy import Policy
from sessiond.session.context.tokens import Estimator

__all__ = ["told_of_branch"]

_SUMMARIES = frozenset({int(Kind.COMPACTION), int(Kind.BRANCH_SUMMARY)})


def told_of_branch(
    opened: OpenSession, places: tuple[int, int], policy: Policy, estimator: Estimator, budget: int
) -> BranchMaterial:
    """Return what to summarise when a head goes from one place to another. Blocks.

    Raises StorageError, TooLarge.
    """
    seqs = entries_left(opened.session, *places)
    lines = plan_lines(
        opened.journal,
        seqs,
        "the branch is larger than a plan may read: send a summary of your own to session/branch",
    )
    steps = [_step(opened, seq, line, estimator) for seq, line in zip(seqs, lines, strict=True)]
    return gather(steps, budget, policy.preset.files)


def _step(opened: OpenSession, seq: int, line: bytes, estimator: Estimator) -> LeftStep:
    name, kind = opened.session.names[seq], opened.session.kinds[seq]
    # A compaction's own message stands between those of the system, which it keeps, and its notice.
    messages = opened.dialect.context([ContextLine(name, kind, line)])
    messages = messages[:1] if opened.dialect.rules.notices else messages[-1:]
    reading = opened.dialect.read(messages[0].body) if messages else None
    if kind == Kind.BRANCH_SUMMARY and reading is None:
        # An empty summary adds nothing to a context, but it is one of the abandoned entries.
        reading = ParsedMessage("branch_summary", ())
    return LeftStep(
        name,
        reading,
        0 if reading is None else estimator.message(reading),
        opened.dialect.summary(line) if kind in _SUMMARIES else None,
        kind == Kind.BRANCH_SUMMARY,
    )
