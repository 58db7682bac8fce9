"""Entries of a copy in their places, as native lines.

Law: a step keeps the id that it has at its source, where a native entry may have that id. So the
copy of an entry is found by the id that its agent gave.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, field, structs

from sessiond.dialects.agents.reading import Origin
from sessiond.dialects.agents.tables.ids import IdTable
from sessiond.dialects.native.dialect import NATIVE
from sessiond.model.digests import sha256_hex
from sessiond.model.entries import Compaction, Entry, Header, Leaf, SessionInfoEntry
from sessiond.model.ids import is_new_entry_id
from sessiond.service.log.session_info import Lineage

_NO_TIME: Final = "1970-01-01T00:00:00.000Z"


class Step(Struct):
    """Entries that stand below each other, under a key; no entries for a step without a message."""

    number: int
    """Number among the steps of a conversation, from 1, in their order; numbers may be left out."""
    above: int = 0
    """Number of the step above, which comes before; 0 for none."""
    key: str = ""
    time: str = ""
    entries: list[Entry] = field(default_factory=list[Entry])
    line: int = 0
    """Number of the line at the source."""
    kept_from: int = 0
    """Number of the step from which on a compaction keeps the steps before it; 0 for none."""


class Conversation(Struct):
    """A conversation: its steps in order, which come once, facts of the session, and the leaf's step."""

    origin: Origin
    steps: Iterator[Step]
    info: SessionInfoEntry | None = None
    leaf: int = 0
    begun: str = ""
    """Time of the first step that has one."""
    lineage: Lineage = Lineage()
    """Origin of the session, but for its id at the source."""


def native_lines(talk: Conversation, session_id: str, cwd: str | None) -> Iterator[bytes]:
    """Yield the lines of a native file of its own: header, steps, facts, and the leaf."""
    origin = talk.origin
    lineage = structs.replace(talk.lineage, header_id=origin.session_id or None)
    header = Header(
        id=session_id,
        timestamp=origin.created_at or talk.begun or _NO_TIME,
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
) -> Iterator[bytes]:
    """Yield the lines of a native file with this header; `new_id` gives all entries new ids.

    Ids that the source lacks are made of `seed`, else of the id of the session.
    """
    writer = _Writer(header.id if seed is None else seed, talk.begun or _NO_TIME, new_id)
    yield NATIVE.encode_header(header)
    for step in talk.steps:
        yield from writer.put(step)
        # A long line goes before the next one comes.
        del step
    if talk.info is not None:
        yield writer.record(talk.info)
    if writer.last != writer.end_of(talk.leaf):
        target = writer.ids.name_of(writer.end_of(talk.leaf)) or None
        yield writer.record(Leaf(target_id=target, reason="rewind"))


class _Writer:
    """The ids so far, by their numbers; the first and the last entry of each step; 0 is none."""

    def __init__(self, seed: str, now: str, new_id: Callable[[], str] | None) -> None:
        self.ids = IdTable()
        self.last = 0
        self._begins, self._ends = array("i", (0,)), array("i", (0,))
        self._count = 0
        self._seed = seed
        self._now = now
        self._new_id = new_id

    def end_of(self, step: int) -> int:
        """Return the last entry of a step, or of the steps above a step without entries."""
        return self._ends[step] if step < len(self._ends) else 0

    def put(self, step: Step) -> Iterator[bytes]:
        """Yield the entries of a step, each below the one before. Empties the step."""
        above, begin = self.end_of(step.above), 0
        self._now = step.time or self._now
        number, at = step.number, 1
        while step.entries:
            entry = step.entries.pop(0)
            if isinstance(entry, Compaction) and step.kept_from:
                first = self._begins[step.kept_from] if step.kept_from < len(self._begins) else 0
                entry.first_kept_entry_id = self.ids.name_of(first) or None
            wanted = step.key if at == 1 else f"{step.key}.{at}"
            entry.parent_id = self.ids.name_of(above) or None
            line, above = self._add(entry, wanted)
            begin, at = begin or above, at + 1
            self.last = above
            del entry
            yield line
            del line
        for column, value in ((self._begins, begin), (self._ends, above)):
            column.extend(repeat(0, number + 1 - len(column)))
            column[number] = value

    def record(self, entry: Entry) -> bytes:
        """Return an entry that is no part of the tree."""
        entry.parent_id = self.ids.name_of(self.last) or None
        return self._add(entry, "")[0]

    def _add(self, entry: Entry, wanted: str) -> tuple[bytes, int]:
        entry.id, entry.timestamp = self._free(wanted), self._now
        self._count += 1
        return NATIVE.encode(entry), self.ids.add(entry.id)

    def _free(self, wanted: str) -> str:
        if self._new_id is not None:
            return self._new_id()
        if is_new_entry_id(wanted) and wanted not in self.ids:
            return wanted
        seed = f"{self._seed}\0{self._count}\0{wanted}"
        return sha256_hex(seed.encode(errors="replace"))[:32]
