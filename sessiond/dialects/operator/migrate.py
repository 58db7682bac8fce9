"""The migration of files of Operator's older generations to today's.

Version 1 has other names of types and times in text. The oldest files are lists: messages without
entries around them, below a line with metadata. The ids of their entries are derived, so migrating
a file twice gives identical entries. Lines that do not parse stay unchanged.

    {"type":"metadata","id":"…","created_at":"…","updated_at":"…","metadata":{}}
    {"role":"user","content":"hi"}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from sessiond.dialects.base import BadLine
from sessiond.dialects.lenient_json import fields, is_null, join, lenient, text
from sessiond.dialects.operator.compose import compose
from sessiond.dialects.operator.header import CURRENT_VERSION, members_of, seconds
from sessiond.dialects.payload import read_message
from sessiond.dialects.times import raw_rfc3339, raw_time
from sessiond.model.digests import sha256_hex

_ID_CHARS: Final = 8
_TYPES: Final = {
    "llm": "message",
    "compaction_summary": "compaction",
    "custom_info": "custom",
}
_PARENTS: Final = ("parent_session_path", "parent_session_file")
_encode: Final = msgspec.json.Encoder().encode


def upgrade_of(header: bytes) -> OperatorUpgrade | None:
    """Return the migration of a file by its first line; None for a current one. Raises BadHeader."""
    found, version = members_of(header)
    return None if version >= CURRENT_VERSION else OperatorUpgrade(found)


class OperatorUpgrade:
    """The migration of one file, a line at a time. Any thread may ask again for a taken line."""

    is_older = True
    spelled = None

    def __init__(self, found: dict[str, Raw]) -> None:
        self._id = text(found.get("id")) or ""
        self._time = _seconds(found.get("timestamp", found.get("created_at")))
        self.header = _header(found, self._time)
        self._seq = 0
        # Id and parent that the lines without an id get, by line.
        self._places: dict[int, tuple[str, str | None]] = {}
        self._ids: set[str] = set()
        self._above: str | None = None

    @property
    def facts(self) -> Mapping[str, Any]:
        """Return nothing: every generation has the header's facts in its header."""
        return {}

    def settings(self) -> Sequence[bytes]:
        """Return nothing: each version has the header's facts in its header."""
        return ()

    def pass_over(self, lines: Sequence[bytes], start: int) -> int:  # noqa: ARG002
        """Return 0: each line is taken by itself."""
        return 0

    def take(self, line: bytes) -> bytes:
        """Return the next line as the current version has it."""
        self._seq += 1
        try:
            found = fields(line)
        except BadLine:
            return line
        entry_id = None if _is_bare(found) else text(found.get("id"))
        if entry_id is None:
            if not (_is_bare(found) or "type" in found) or text(found.get("type")) == "metadata":
                return line
            entry_id = self._new_id(self._seq)
            self._places[self._seq] = (entry_id, self._above)
        if entry_id:
            self._ids.add(entry_id)
            self._above = entry_id
        return self._upgraded(found, self._places.get(self._seq))

    def peek(self, line: bytes) -> bytes:
        """Return the line as `take` would, without taking it. Raises BadLine."""
        found = fields(line)
        # Only the form counts here: the id of another place will do.
        return self._upgraded(found, ("0", None) if _is_bare(found) or "id" not in found else None)

    def again(self, seq: int, line: bytes) -> bytes:
        """Return the line `seq`, which was taken before."""
        if not seq:
            return self.header
        try:
            found = fields(line)
        except BadLine:
            return line
        place = self._places.get(seq)
        if place is None and (_is_bare(found) or "id" not in found):
            return line
        return self._upgraded(found, place)

    def _upgraded(self, found: dict[str, Raw], place: tuple[str, str | None] | None) -> bytes:
        """Return the entry with today's type and times, and with the id and parent of its place."""
        if _is_bare(found):
            found = {"type": Raw(b'"message"'), "message": Raw(join(found))} | {
                name: found[name] for name in ("timestamp",) if name in found
            }
        if not (word := text(found.get("type"))):
            return join(found)
        time = _seconds(found.get("timestamp"))
        members: dict[str, Raw] = {"id": found.get("id", Raw(b"null"))}
        if place is not None:
            members["id"] = Raw(_encode(place[0]))
        if (time := self._time if time is None else time) is not None:
            members["timestamp"] = Raw(_encode(time))
        parent_id = found.get("parent_id") if place is None else Raw(_encode(place[1]))
        if parent_id is not None and not is_null(parent_id):
            members["parent_id"] = parent_id
        members["type"] = Raw(_encode(_type(word, found)))
        members |= {name: value for name, value in found.items() if name not in _ENVELOPE}
        if "message" in members:
            members["message"] = _message(members["message"], Raw(_encode(time)))
        return join(members)

    def _new_id(self, seq: int) -> str:
        attempt = 0
        while True:
            digest = sha256_hex(f"{self._id}\0{seq}\0{attempt}".encode())[:_ID_CHARS]
            if digest not in self._ids:
                return digest
            attempt += 1


_ENVELOPE: Final = frozenset({"id", "timestamp", "parent_id", "type"})


def _is_bare(found: dict[str, Raw]) -> bool:
    """Return whether a line is a message without an entry around it."""
    return "type" not in found and text(found.get("role")) is not None


def _type(word: str, found: dict[str, Raw]) -> str:
    """Return today's name of a type; `custom` named an extension's message, not its data."""
    if word == "custom" and ("message" in found or "content" in found):
        return "message" if "message" in found else "custom_message"
    return _TYPES.get(word, word)


def _message(message: Raw, time: Raw) -> Raw:
    """Return a message in today's shape; a message that has the shape stays as it came."""
    said = lenient(message)
    if not said:
        return message
    if "contents" not in said:
        said = _composed(message, said, raw_rfc3339(time))
    elif isinstance(raw_time(said.get("timestamp")), str):
        said["timestamp"] = time
    if said == lenient(message):
        return message
    return Raw(join(said))


def _composed(message: Raw, said: dict[str, Raw], time: str) -> dict[str, Raw]:
    """Return a message of the oldest shape as a message of today's, with its other members."""
    parsed = read_message(message)
    made = [] if parsed is None else compose(parsed, time)
    if not made:
        return said
    spelled = ("content", "tool_calls", "tool_call_id", "timestamp")
    return fields(made[0]) | {
        name: value
        for name, value in said.items()
        if name not in spelled and name not in fields(made[0])
    }


def _header(found: dict[str, Raw], time: float | None) -> bytes:
    """Return the header in today's spelling, with the members that today's header lacks behind."""
    metadata = lenient(found.get("metadata", Raw(b"{}")))
    members = {
        "type": Raw(b'"session"'),
        "version": Raw(b"%d" % CURRENT_VERSION),
        "id": found["id"],
        "timestamp": Raw(_encode(time or 0.0)),
        "cwd": found.get("cwd", metadata.get("cwd", Raw(b'""'))),
    }
    parents = (found[name] for name in ("parent_session", *_PARENTS) if name in found)
    parent = next((raw for raw in parents if not is_null(raw)), None)
    if parent is not None:
        members["parent_session"] = parent
    gone = {*_PARENTS, "created_at", "parent_session"}
    return join(members | {n: v for n, v in found.items() if n not in members and n not in gone})


def _seconds(raw: Raw | None) -> float | None:
    return seconds(raw_time(raw))
