"""The migration of sharur's exports and of files from before the tree.

An export has today's header, but its entries have no ids: each one is the child of the entry before
it. The first entry shows whether a file is an export. A file from before the tree has a header and
messages of another `kind`. All ids are derived, so migrating a file twice gives identical entries.
Lines that do not parse stay unchanged.

    {"kind":"message","role":"user","content":"hello","raw":{"role":"user","content":"hello"}}

A message that sessiond appends to a file from before the tree has this spelling too, and members that its
program does not read: its id (`entryId`), its parent and its time. The parent is the message before it, unless
another program's message came in between. An export is not appended to: sharur reads none of its entries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Raw

from sessiond.dialects.base import BadLine
from sessiond.dialects.lenient_json import fields, is_null, join, lenient, text
from sessiond.dialects.native.header import header_fields
from sessiond.dialects.sharur.header import is_flat, upgraded
from sessiond.dialects.sharur.names import type_of
from sessiond.dialects.sharur.values import go_json, is_zero_time
from sessiond.model.digests import sha256_hex
from sessiond.model.ids import as_uuid

OWN_ID: Final = "entryId"
"""The member in which sessiond keeps the id of a message that it appended."""
_SAID: Final = frozenset({"role", "content"})
# The settings that a header from before the tree has, as entries that say the same.
_SETTINGS: Final = (
    ("thinking_level_change", (("thinkingLevel", "thinkingLevel"),)),
    ("session_info", (("name", "name"),)),
    ("model_change", (("provider", "provider"), ("model", "modelId"))),
)


def upgrade_of(header: bytes) -> SharurUpgrade:
    """Return the migration of a file by its first line. Raises BadHeader."""
    return SharurUpgrade(header, header_fields(header))


def flat_line(line: bytes) -> bytes:
    """Return a message's line as a file from before the tree has it."""
    found = fields(line)
    message = found.pop("message")
    said = fields(message)
    members = {"kind": found.pop("type"), "role": said["role"], "content": said["content"]}
    return join(members | {"raw": message, OWN_ID: found.pop("id")} | found)


class SharurUpgrade:
    """The migration of one file, a line at a time. Any thread may ask again for a taken line."""

    def __init__(self, header: bytes, found: dict[str, Raw]) -> None:
        self._flat = is_flat(found)
        self._stated = found
        self.is_older: bool | None = True if self._flat else None
        self.header = upgraded(found) if self._flat else header
        self._header = fields(self.header)
        self._header_id = text(found.get("id")) or ""
        self._above = self._header_id
        # Id and parent of each line; both are "" for a line that is no entry or has its own.
        self._places: list[tuple[str, str]] = [("", "")]

    @property
    def spelled(self) -> Callable[[bytes], bytes] | None:
        """Function that spells a message as a file from before the tree has it; None for an export."""
        return flat_line if self._flat else None

    @property
    def facts(self) -> dict[str, Any]:
        """Settings that the header from before the tree states, and today's header cannot."""
        if not self._flat:
            return {}
        said = {"provider": "provider", "thinking_level": "thinkingLevel"}
        found = {fact: text(self._stated.get(name)) for fact, name in said.items()}
        return {fact: value for fact, value in found.items() if value}

    def settings(self) -> list[bytes]:
        """Return the header's settings as entries; the first message comes below the last one."""
        found: list[bytes] = []
        for word, names in _SETTINGS if self._flat else ():
            said = {to: self._stated[of] for of, to in names if text(self._stated.get(of))}
            if names[-1][1] in said:
                entry_id = self._derived(word)
                place = {"type": go_json(word), "id": go_json(entry_id)}
                place |= {"parentId": go_json(self._above), "timestamp": self._header["timestamp"]}
                found.append(join(place | said))
                self._above = entry_id
        return found

    def pass_over(self, lines: Sequence[bytes], start: int) -> int:  # noqa: ARG002
        """Return 0: each line is taken by itself."""
        return 0

    def take(self, line: bytes) -> bytes:
        """Return the next line as version 3 has it."""
        found = lenient(line)
        word, entry_id = type_of(found), text(found.get("id"))
        if self.is_older is None and word is not None:
            self.is_older = entry_id is None
        seq = len(self._places)
        if not self.is_older or word is None or entry_id is not None:
            self._places.append(("", ""))
            self._above = entry_id or self._above
            return line
        place = (self._derived(str(seq)), self._above)
        if self._flat and (own := text(found.get(OWN_ID))):
            place = (own, text(found.get("parentId")) or self._above)
        self._places.append(place)
        self._above = self._places[seq][0]
        return self._placed(found, seq)

    def peek(self, line: bytes) -> bytes:
        """Return the line as `take` would, without taking it. Raises BadLine."""
        found = fields(line)
        if self.is_older is False or text(found.get("id")) is not None or type_of(found) is None:
            return line
        # Only the form counts here: the id of another place will do.
        return self._formed(found, "0", "")

    def again(self, seq: int, line: bytes) -> bytes:
        """Return the line `seq`, which was taken before."""
        if not seq:
            return self.header
        if not self._places[seq][0]:
            return line
        try:
            return self._placed(fields(line), seq)
        except BadLine:
            return line

    def _placed(self, found: dict[str, Raw], seq: int) -> bytes:
        return self._formed(found, *self._places[seq])

    def _formed(self, found: dict[str, Raw], entry_id: str, parent_id: str) -> bytes:
        message = found.get("raw", found.get("message"))
        members = {"type": go_json(type_of(found)), "id": go_json(entry_id)}
        members |= {"parentId": go_json(parent_id)}
        if "kind" not in found or "type" in found:
            return join(members | {n: v for n, v in found.items() if n not in members})
        if is_null(message):
            # Without the full message, role and content are all there is of it.
            said = {name: found[name] for name in found if name in _SAID}
            message = Raw(join(said)) if said else message
        members["timestamp"] = found.get("timestamp", self._time(message))
        if not is_null(message) and message is not None:
            members["message"] = message
        known = {"kind", "raw", "role", "content", OWN_ID, *members}
        return join(members | {name: value for name, value in found.items() if name not in known})

    def _time(self, message: Raw | None) -> Raw:
        """Return the time of a message, or that of the session if the message has none."""
        stamp = lenient(message or b"").get("timestamp")
        said = text(stamp)
        if stamp is None or not said or is_zero_time(said):
            return self._header["timestamp"]
        return stamp

    def _derived(self, name: str) -> str:
        return as_uuid(sha256_hex(f"{self._header_id}\0{name}".encode())[:32])
