"""Entries of a copy in their places, as native lines.

Law: a step keeps the id that it has at its source, where a native entry may have that id. So the
copy of an entry is found by the id that its agent gave.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, structs

from sessiond.dialects.agents.reading import Origin
from sessiond.dialects.native.dialect import NATIVE
from sessiond.model.digests import sha256_hex
from sessiond.model.entries import Compaction, Entry, Header, Leaf, SessionInfoEntry
from sessiond.model.ids import is_new_entry_id
from sessiond.service.log.session_info import Lineage

__all__ = ["Conversation", "Step", "lines_below", "native_lines"]

_NO_TIME: Final = "1970-01-01T00:00:00.000Z"


class Step(Struct):
    """Entries that stand below each other, under a key; no entries for a step without a message.

    A compaction's `first_kept_entry_id` is the key of a step here.
    """

    key: str
    parent: str | None
    time: str
    entries: list[Entry]
    line: int = 0
    """Number of the line at the source."""


class Conversation(Struct):
    """A conversation: its steps in order, facts of the session, and the leaf's step."""

    origin: Origin
    steps: list[Step]
    info: SessionInfoEntry | None = None
    leaf: str | None = None
    lineage: Lineage = Lineage()
    """Origin of the session, but for its id at the source."""


def native_lines(talk: Conversation, session_id: str, cwd: str | None) -> list[bytes]:
    """Return the lines of a native file of its own: header, steps, facts, and the leaf."""
    origin = talk.origin
    created = origin.created_at or _first_time(talk)
    lineage = structs.replace(talk.lineage, header_id=origin.session_id or None)
    header = Header(
        id=session_id,
        timestamp=created,
        cwd=origin.cwd if cwd is None else cwd,
        agent=origin.agent,
        lineage=UNSET if lineage == Lineage() else Raw(msgspec.json.encode(lineage)),
        metadata=Raw(msgspec.json.encode({origin.agent: origin.facts})),
    )
    # Equal sources have copies with equal lines, so a second import is known.
    return lines_below(header, talk, seed=origin.session_id)


def lines_below(
    header: Header,
    talk: Conversation,
    new_id: Callable[[], str] | None = None,
    seed: str | None = None,
) -> list[bytes]:
    """Return the lines of a native file with this header; `new_id` gives all entries new ids.

    Ids that the source lacks are made of `seed`, else of the id of the session.
    """
    writer = _Writer(header.id if seed is None else seed, _first_time(talk), new_id)
    for step in talk.steps:
        writer.put(step)
    if talk.info is not None:
        writer.record(talk.info)
    if writer.last != writer.ends.get(talk.leaf or ""):
        writer.record(Leaf(target_id=writer.ends.get(talk.leaf or ""), reason="rewind"))
    return [NATIVE.encode_header(header), *writer.lines]


def _first_time(talk: Conversation) -> str:
    return next(filter(None, (step.time for step in talk.steps)), _NO_TIME)


class _Writer:
    """The lines so far, and the first and the last entry of each step."""

    def __init__(self, seed: str, now: str, new_id: Callable[[], str] | None) -> None:
        self.lines: list[bytes] = []
        self.begins: dict[str, str] = {}
        self.ends: dict[str, str | None] = {}
        self.last: str | None = None
        self._seed = seed
        self._now = now
        self._new_id = new_id
        self._ids: set[str] = set()

    def put(self, step: Step) -> None:
        """Add the entries of a step, each below the one before."""
        above = None if step.parent is None else self.ends.get(step.parent)
        self._now = step.time or self._now
        for at, entry in enumerate(step.entries):
            entry.parent_id = above
            if isinstance(entry, Compaction) and isinstance(entry.first_kept_entry_id, str):
                entry.first_kept_entry_id = self.begins[entry.first_kept_entry_id]
            above = self.last = self._add(entry, step.key if not at else f"{step.key}.{at + 1}")
            self.begins.setdefault(step.key, above)
        self.ends[step.key] = above

    def record(self, entry: Entry) -> None:
        """Add an entry that is no part of the tree."""
        entry.parent_id = self.last
        self._add(entry, "")

    def _add(self, entry: Entry, wanted: str) -> str:
        entry.id, entry.timestamp = self._free(wanted), self._now
        self._ids.add(entry.id)
        self.lines.append(NATIVE.encode(entry))
        return entry.id

    def _free(self, wanted: str) -> str:
        if self._new_id is not None:
            return self._new_id()
        if is_new_entry_id(wanted) and wanted not in self._ids:
            return wanted
        seed = f"{self._seed}\0{len(self.lines)}\0{wanted}"
        return sha256_hex(seed.encode(errors="replace"))[:32]
