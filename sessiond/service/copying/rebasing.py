"""Rebase: chosen entries in a given order, each below the one before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sessiond.dialects.compose import said_by_user
from sessiond.errors import EntryNotFound, InvalidParams
from sessiond.model.entries import Compaction
from sessiond.model.row import MESSAGE_KINDS, Kind
from sessiond.service.copying.copying import Copying, chunks_of_chosen
from sessiond.service.copying.header import Birth, facts_of, header_of, lineage_of_copy, settings_of
from sessiond.service.copying.merging import spoken
from sessiond.service.copying.source import Source, annotation_seqs, label_seqs, out_of_range
from sessiond.service.log.session_info import Lineage
from sessiond.service.sources.agents.joining import JoinedPart, agent_of, joined_lines
from sessiond.service.sources.agents.writing import Step


def by_ids(source: Source, entry_ids: Sequence[str]) -> list[int]:
    """Return the entries of the tree with these ids. Raises EntryNotFound, InvalidParams."""
    session = source.session
    seqs: list[int] = []
    for index, entry_id in enumerate(entry_ids):
        path = f"entry_ids[{index}]"
        seq = session.node(entry_id)
        if not 0 < seq <= source.upto or session.kinds[seq] == Kind.LABEL:
            raise EntryNotFound("no entry of this id in the tree", entry_id=entry_id, path=path)
        seqs.append(seq)
    return _once_each(seqs, "entry_ids")


def by_indices(source: Source, indices: Sequence[int]) -> list[int]:
    """Return the messages at these places on main's path, 0 the first. Raises InvalidParams."""
    session = source.session
    messages = [seq for seq in session.path(source.leaf) if session.kinds[seq] in MESSAGE_KINDS]
    for at, index in enumerate(indices):
        if not 0 <= index < len(messages):
            raise InvalidParams(out_of_range(len(messages)), path=f"indices[{at}]")
    return _once_each([messages[index] for index in indices], "indices")


def _once_each(seqs: list[int], path: str) -> list[int]:
    if not seqs:
        raise InvalidParams("no entry is chosen; choose at least one", path=path)
    seen: set[int] = set()
    for index, seq in enumerate(seqs):
        if seq in seen:
            raise InvalidParams("an entry can be chosen only once", path=f"{path}[{index}]")
        seen.add(seq)
    return seqs


def rebase(
    source: Source,
    seqs: Sequence[int],
    squashed: Compaction | None,
    birth: Birth,
) -> Iterator[list[bytes]]:
    """Return the lines of the new session, header first. Blocks. Raises StorageError.

    A compaction that keeps nothing squashes the entries: the model sees its summary alone, and the
    entries before it are still in the file. Where no later entry would add to such a compaction, its
    summary is the answer of a new trunk instead.
    """
    lineage = lineage_of_copy(source, birth, rebased_from=source.info.id)
    agent = agent_of(source.opened)
    if agent is not None:
        deps, last = birth.deps, None
        if squashed is not None:
            last = Step(0, key=deps.new_id(), time=deps.now, entries=[squashed])
        header = header_of(source, birth, lineage, state=False, whole=False)
        taken = JoinedPart(source.upto, seqs, last=last)
        return joined_lines(source.opened, agent, header, taken, deps.progress)
    if squashed is not None and source.session.rules.strict_kept:
        return _in_a_new_trunk(source, seqs, f"{squashed.summary}", lineage, birth)
    summed = [] if squashed is None else [_stored_form(source, squashed, birth.deps.now)]
    copying = Copying(
        source,
        header_of(source, birth, lineage, state=False, whole=False),
        birth.deps,
        first=facts_of(source, state=False),
        chain=seqs,
        picked=True,
        about=[*label_seqs(source, seqs), *annotation_seqs(source, seqs)],
        last=[*settings_of(source, source.leaf, seqs), *summed],
    )
    return chunks_of_chosen(copying)


def _in_a_new_trunk(
    source: Source, seqs: Sequence[int], summary: str, lineage: Lineage, birth: Birth
) -> Iterator[list[bytes]]:
    """Return the lines of a session in which the entries stand aside, and the summary alone is seen."""
    count = sum(source.session.kinds[seq] in MESSAGE_KINDS for seq in seqs)
    asked = f"Summary of {count} messages from session {source.info.id[:8]}:"
    copying = Copying(
        source,
        header_of(source, birth, lineage, state=False, whole=False),
        birth.deps,
        first=facts_of(source, state=False),
        aside=seqs,
        picked=True,
        last=spoken(source, asked, summary, birth.deps.now),
    )
    return chunks_of_chosen(copying)


def _stored_form(source: Source, squashed: Compaction, now: str) -> Compaction:
    """Return the compaction by its summary, or by the message that says the summary."""
    if source.session.rules.pointer or not isinstance(squashed.summary, str):
        return squashed
    said = said_by_user(source.opened.dialect, squashed.summary, now)
    return Compaction(messages=[said], details=squashed.details)
