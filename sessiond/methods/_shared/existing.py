"""Sessions that are here already, where a source is to be imported.

Law: two sessions are one only by the id of the source, or by having the same lines. Nothing is the same
session for a likeness: workers that one program started with one prompt begin alike, and so do a session and
its fork. By its id a session is here with all that the source says, or with a part of it, for the source may
have grown since.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Final, Literal

from anyio import to_thread
from msgspec import Struct, field

from sessiond.catalog.finding import Alike
from sessiond.errors import SessiondError
from sessiond.model.row import CONTEXT_KINDS, Kind
from sessiond.service.log.indexer import Indexer
from sessiond.service.log.session_info import SessionInfo
from sessiond.service.service import Service
from sessiond.service.sources.importing import ImportedLines

Reason = Literal["id", "content"]
NATIVE: Final = "native"
_SAID: Final = CONTEXT_KINDS | {Kind.COMPACTION}


class Existing(Struct):
    """The sessions that have the source: as a whole, for a reason, or a part of it."""

    whole: list[str] = field(default_factory=list[str])
    parts: list[str] = field(default_factory=list[str])
    reason: Reason | None = None


async def existing(
    service: Service,
    made: SessionInfo,
    lines: ImportedLines,
    own_id: str | None,
    candidates: Iterable[Alike],
) -> Existing:
    """Return what is here of a source: `lines` are those of the copy, and `made` is what they make.

    `own_id` is the id in a file of a dialect. `candidates` are the sessions that began at the same moment.
    """
    found, entry_ids = Existing(), frozenset[str]()
    names = {made.lineage.header_id, own_id} - {None}
    for one in candidates:
        is_named = bool(names & {one.session_id, one.header_id})
        if is_named and not entry_ids:
            entry_ids = await to_thread.run_sync(_entry_ids, made.id, lines)
        if is_named:
            here = await _share(service, one, entry_ids)
        elif one.first_message == made.first_message and not (names and _has_known_id(one)):
            here = "all" if await _has_lines(service, one, lines) else "none"
        else:
            continue
        if here == "all":
            found.whole.append(one.session_id)
            found.reason = found.reason or ("id" if is_named else "content")
        elif here == "some":
            found.parts.append(one.session_id)
    if found.whole:
        # The copies from before it grew are no news.
        found.parts.clear()
    return found


def _has_known_id(one: Alike) -> bool:
    """Return whether a session's id, or that of its source, is known: a copy in another dialect keeps no id."""
    return one.header_id is not None or one.dialect == NATIVE


def _entry_ids(session_id: str, lines: ImportedLines) -> frozenset[str]:
    """Return the ids of what is said. A name, a leaf, or what stands for it in a format may come and go."""
    indexer = Indexer(Path(session_id))
    for seq, line in enumerate(chain.from_iterable(lines.lists())):
        indexer.visit(seq, line)
    session = indexer.session
    kinds = session.kinds
    said = frozenset(one for one, seq in session.ids.items() if kinds[seq] in _SAID)
    # The state of Nova says nothing, and is all in nodes.
    return said or frozenset(one for one, seq in session.ids.items() if session.is_node(seq))


async def _share(
    service: Service, one: Alike, entry_ids: frozenset[str]
) -> Literal["all", "some", "none"]:
    """Return how many of these entries a session has. A session that cannot be opened has none."""
    try:
        actor = await service.opened_actor(one.session_id)
    except SessiondError:
        return "none"
    there = actor.opened.session.ids
    missing = sum(entry_id not in there for entry_id in entry_ids)
    if not missing:
        return "all"
    return "some" if missing < len(entry_ids) else "none"


async def _has_lines(service: Service, one: Alike, lines: ImportedLines) -> bool:
    """Return whether a session has exactly these lines behind its header."""
    try:
        actor = await service.opened_actor(one.session_id)
        release = actor.retain()
        try:
            return await to_thread.run_sync(lines.are_those_of, actor.opened)
        finally:
            release()
    except SessiondError:
        return False
