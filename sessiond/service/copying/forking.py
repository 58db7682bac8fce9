"""Fork: takes the path, all entries, the context, or only the state of a source."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator
from typing import Final, Literal

from msgspec import Struct

from sessiond.model.entries import Entry, ModelChange
from sessiond.model.row import Kind, ModelName
from sessiond.service.context.context_lines import context_line
from sessiond.service.copying.copying import Copying, chunks_of_all, chunks_of_chosen
from sessiond.service.copying.header import (
    Birth,
    facts_of,
    header_of,
    inherited_state,
    lineage_of_copy,
    settings_of,
    title_of,
)
from sessiond.service.copying.source import (
    Source,
    Step,
    annotation_seqs,
    label_seqs,
    message_at,
    message_index,
    state_seqs,
)
from sessiond.service.log.plan_lines import plan_lines
from sessiond.service.sources.agents.joining import JoinedPart, agent_of, joined_lines
from sessiond.session.context.context import plan_context

Taken = Literal["path", "all", "context", "none"]


class Fork(Struct, frozen=True):
    """The options of a fork.

    `leaf` is where the path ends; `at_message` counts messages on the path.
    """

    entries: Taken
    leaf: int
    at_message: int | None
    keep_messages: int | None
    labels: bool
    state: bool
    renew: bool


_SETTINGS: Final = frozenset({Kind.MODEL, Kind.THINKING})


class _Context(Struct, frozen=True):
    steps: list[Step]
    messages: int
    cut: dict[int, int]
    at: int
    """Entry at which the taken part ends; the settings in force there apply to the fork."""


def fork(source: Source, axes: Fork, birth: Birth) -> Iterator[list[bytes]]:
    """Return the lines of a fork. Blocks. Raises InvalidParams, TooLarge, StorageError."""
    session, leaf = source.session, axes.leaf
    if axes.at_message is not None:
        leaf = message_at(session, leaf, axes.at_message, "at_message")
    context = None
    chain: list[Step] = []
    if axes.entries == "context":
        context = _context(source, leaf, axes.keep_messages)
        chain = context.steps
    elif axes.entries == "path":
        chain = [seq for seq in session.path(leaf) if session.kinds[seq] != Kind.LABEL]
    whole = axes.entries == "all"
    chosen = [step for step in chain if isinstance(step, int)]
    lineage = lineage_of_copy(
        source,
        birth,
        at_entry=None if axes.entries == "none" else session.id_of(leaf),
        at_message=None if axes.entries == "none" else message_index(session, leaf),
        fork_point=None if context is None else context.messages,
    )
    agent = agent_of(source.opened)
    if agent is not None:
        header = header_of(source, birth, lineage, state=axes.state, whole=False)
        if whole and header.title is None:
            # Titles that the agent keeps in another file are in no line.
            header.title = source.opened.header.title
        new_id = birth.deps.new_id if axes.renew else None
        part = None if whole else sorted(chosen)
        taken = JoinedPart(source.upto, part, new_id, notes=birth.notes)
        return joined_lines(source.opened, agent, header, taken, birth.deps.progress)
    birth.notes.extend(
        one.note for one in session.gaps(range(1, source.upto + 1) if whole else chosen)
    )
    aside: list[Step] = []
    about = label_seqs(source, chosen) if axes.labels else []
    last: list[Entry] = []
    if not whole:
        last += settings_of(source, leaf if context is None else context.at, chain)
        if axes.state:
            # An annotation before its entry would say nothing.
            known = annotation_seqs(source, chosen)
            about += known
            aside += state_seqs(source, [*chosen, *known])
            # Behind entries of the path that change the state too, it moves the leaf.
            on_path = any(session.kinds[seq] == Kind.CUSTOM for seq in chosen)
            (last if on_path else aside).extend(inherited_state(source))
    copying = Copying(
        source,
        header_of(source, birth, lineage, state=axes.state, whole=whole),
        birth.deps,
        first=() if whole else facts_of(source, state=axes.state),
        aside=aside,
        chain=chain,
        about=about,
        last=[*last, *title_of(source, birth, whole=whole)],
        renew=axes.renew,
        messages={} if context is None else context.cut,
    )
    if whole:
        return chunks_of_all(copying, labels=axes.labels)
    return chunks_of_chosen(copying)


def _context(source: Source, leaf: int, keep: int | None) -> _Context:
    """Return the entries of the context's first `keep` messages, with the entries that set them up.

    They stay in the order of the file: the entries that a compaction kept stand before it. Raises
    TooLarge.
    """
    session, opened = source.session, source.opened
    plan = plan_context(session, leaf)
    found = plan_lines(
        opened.journal,
        plan.seqs,
        "the context is too large to be copied; fork its path with entries: path",
    )
    lines = [
        context_line(opened, seq, line, plan.compaction, lists=False)
        for seq, line in zip(plan.seqs, found, strict=True)
    ]
    sources = [message.source for message in opened.dialect.context(lines)]
    count = len(sources) if keep is None else min(keep, len(sources))
    cut: dict[int, int] = {}
    own = sources.count(session.names[plan.compaction])
    if own > count and session.rules.replacement:
        cut[plan.compaction] = count
    elif own > count:
        # A compaction that cannot be cut is taken whole.
        count = own
    wanted = set(sources[:count])
    seqs = [
        seq
        for seq in plan.seqs
        # A context edit gives no message, but changes the messages of other entries.
        if keep is None or session.names[seq] in wanted or session.kinds[seq] == Kind.CONTEXT_EDIT
    ]
    said = (seq for seq in seqs if session.kinds[seq] != Kind.CONTEXT_EDIT)
    at = leaf if keep is None else max(said, default=0)
    return _Context(_with_settings(source, at, seqs), count, cut, at)


def _with_settings(source: Source, at: int, seqs: list[int]) -> list[Step]:
    """Return the entries with those that set their model and thinking level.

    No context shows such entries.
    """
    session = source.session
    model, thinking = session.model_refs[at], session.thinking_refs[at]
    settings = {seq for seq in (model, thinking) if session.kinds[seq] in _SETTINGS}
    steps = sorted(settings.union(seqs))
    if not model or model in settings or model in seqs:
        return [*steps]
    # An assistant's message that is not in the context any more named the model.
    named = session.setting(model)
    if not isinstance(named, ModelName):
        return [*steps]
    change = ModelChange(model_id=named.model_id)
    if named.provider is not None:
        change.provider = named.provider
    # Put the change where that message stood: a taken message before it may name another model.
    place = bisect(steps, model)
    return [*steps[:place], change, *steps[place:]]
