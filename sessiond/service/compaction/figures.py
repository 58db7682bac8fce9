"""Figures of a compaction that is about to be stored, for a program that shows them.

sharur tells its user how many tokens a compaction freed, by the figures in the entry. They are
estimates, made before the entry is stored; the figures that a caller sends come first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sessiond.model.parsed_message import Block, ParsedMessage
from sessiond.service.actor.actor import SessionActor
from sessiond.service.context.context_cache import build_context
from sessiond.service.context.context_lines import context_line
from sessiond.session.compaction.compaction import CompactRequest, Figures
from sessiond.session.context.context import plan_context
from sessiond.session.draft import Draft
from sessiond.session.index import Session


def lines_to_count(session: Session, head: str) -> Iterable[int]:
    """Return the lines of the context at a head, if a compaction there needs figures."""
    at = session.heads.get(head)
    return () if at is None or not session.rules.notices else plan_context(session, at.leaf).seqs


def figures_in(actor: SessionActor, draft: Draft, request: CompactRequest) -> Figures:
    """Return the figures for a compaction that is being staged; none if the context is not known."""
    at, kept = draft.session.heads.get(request.head), request.first_kept_entry_id
    if request.plan is not None:
        kept = request.plan.first_kept_entry_id
    if not draft.session.rules.notices or at is None or draft.leaf(request.head) != at.leaf:
        return Figures()
    plan = plan_context(draft.session, at.leaf)
    lines = [draft.known_line_of(seq) for seq in plan.seqs]
    found = [
        context_line(actor.opened, seq, line, plan.compaction)
        for seq, line in zip(plan.seqs, lines, strict=True)
        if line is not None
    ]
    if len(found) < len(lines) or not isinstance(kept, str):
        return Figures()
    messages = actor.opened.dialect.context(found)
    sources = [message.source for message in messages]
    bodies = [message.body for message in messages]
    return _figures(actor, sources, bodies, (kept, request.summary or ""))


def figures_at(actor: SessionActor, leaf: int, kept: str, summary: str) -> Figures:
    """Return the figures for a compaction at a leaf; none if nothing shows them. Blocks.

    Raises StorageError.
    """
    if not actor.opened.dialect.rules.notices:
        return Figures()
    context = build_context(actor.opened, leaf)
    sources = context.sources[: context.count]
    return _figures(actor, sources, context.messages(), (kept, summary))


def _figures(
    actor: SessionActor,
    sources: Sequence[str],
    bodies: Sequence[bytes],
    compaction: tuple[str, str],
) -> Figures:
    """Return the tokens of a context, and those of the summary and all from the first kept entry on."""
    kept, summary = compaction
    policies = actor.environment.policies
    estimator = policies.estimator(policies.of(actor.opened))
    tokens: list[int] = []
    for body in bodies:
        reading = actor.opened.dialect.read(body)
        tokens.append(0 if reading is None else estimator.message(reading))
    said = ParsedMessage("compaction_summary", (Block("text", text=summary),))
    first = sources.index(kept) if kept in sources else len(sources)
    return Figures(sum(tokens), estimator.message(said) + sum(tokens[first:]))
