"""The migration of piglet files whose entries have no ids.

An entry without an id gets the id `L<n>`, where n counts such entries from 0, and stands below the
entry before it. Later lines name these ids as parents, so the counting is piglet's: also a line
counts that is no entry here but is JSON that piglet reads.

    {"type":"user","ts":"2026-04-24T10:00:02.104233817-04:00","data":{"content":"hello"}}
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from sessiond import typed
from sessiond.dialects.base import BadLine
from sessiond.dialects.lenient_json import fields, is_null, join, text
from sessiond.dialects.piglet.header import META
from sessiond.dialects.piglet.spelling import require_time


class _Line(Struct, gc=False):
    """The members of a usual line that tell its place."""

    type: str
    id: str = ""


# A line that begins with the type of an entry and an id, as piglet writes each of them today.
_USUAL: Final = rb'\{"type":"(?!meta")[^"\\]+","id":"[^"\\]+"'
_DECODE_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class PigletUpgrade:
    """The migration of one file, a line at a time. Any thread may ask again for a taken line.

    `is_older` is None until a line has no id: any later line may have none, since an older piglet
    may have written to a newer one's file.
    """

    def __init__(self, header: bytes) -> None:
        self.header = header
        self.facts: Mapping[str, Any] = {}
        self.is_older: bool | None = None
        self._leaf: str | None = None
        self._behind: Sequence[bytes] = ()
        self._taken = 0
        # The number and the parent of each entry without an id, by its line.
        self._places: dict[int, tuple[int, str | None]] = {}

    def spelled(self, line: bytes) -> bytes:
        """Return the line: piglet too appends lines with ids to such a file."""
        return line

    def settings(self) -> Sequence[bytes]:
        """Return nothing: each version has the header's facts in its header."""
        return ()

    def pass_over(self, lines: Sequence[bytes], start: int) -> int:
        """Take the lines that name their ids at the usual place; return how many there are."""
        self._settle()
        at = start
        is_usual = re.compile(_USUAL).match
        while at < len(lines) and is_usual(lines[at]) is not None:
            at += 1
        self._behind, self._taken = lines[start:at], self._taken + at - start
        return at - start

    def _settle(self) -> None:
        """Find the leaf behind the lines that were passed over: the last one that is whole."""
        for line in reversed(self._behind):
            try:
                self._leaf = typed.decode(line, _Line).id
            except _DECODE_ERRORS:
                continue
            break
        self._behind = ()

    def take(self, line: bytes) -> bytes:
        """Return the next line, with an id if it lacks one."""
        self._settle()
        self._taken += 1
        try:
            found = typed.decode(line, _Line)
        except _DECODE_ERRORS:
            pass
        else:
            if found.type == META or found.id:
                self._leaf = self._leaf if found.type == META else found.id
                return line
        return self._take_unnamed(line)

    def peek(self, line: bytes) -> bytes:
        """Return the line as `take` would, without taking it. Raises BadLine."""
        found = fields(line)
        return _placed(found, "L0", None) if _lacks_id(found) else line

    def again(self, seq: int, line: bytes) -> bytes:
        """Return the line `seq`, which was taken before."""
        place = self._places.get(seq)
        return line if place is None else _placed(fields(line), f"L{place[0]}", place[1])

    def _take_unnamed(self, line: bytes) -> bytes:
        try:
            found = fields(line)
            require_time(found)
        except BadLine:
            return line
        if text(found.get("type")) == META:
            return line
        if not _lacks_id(found):
            self._leaf = text(found["id"]) or self._leaf
            return line
        own = text(found.get("parentId")) or None
        number, parent = len(self._places), self._leaf or own
        self._places[self._taken] = number, parent
        if "type" in found:
            # A line without a type is no entry here, so that nothing stands below such a line.
            self._leaf = f"L{number}"
        self.is_older = True
        return _placed(found, f"L{number}", parent)


def _lacks_id(found: dict[str, Raw]) -> bool:
    """Return whether the line is an entry of piglet's without an id."""
    raw = found.get("id")
    if text(found.get("type")) == META:
        return False
    return is_null(raw) or text(raw) == ""


def _placed(found: dict[str, Raw], entry_id: str, parent_id: str | None) -> bytes:
    members: dict[str, Raw] = {"type": found["type"]} if "type" in found else {}
    members["id"] = Raw(msgspec.json.encode(entry_id))
    if parent_id is not None:
        members["parentId"] = Raw(msgspec.json.encode(parent_id))
    return join(members | {name: one for name, one in found.items() if name not in _PLACE})


_PLACE: Final = frozenset({"type", "id", "parentId"})
