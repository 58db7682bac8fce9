"""The migration of files of pi's versions 1 and 2 to version 3.

Version 1 is a list; its entries get ids and parents. Version 2 has another name for one
role. The ids are derived, so migrating a file twice gives identical entries. Lines that
do not parse stay unchanged.

    {"type":"compaction","timestamp":"…","summary":"…","firstKeptEntryIndex":3,"tokensBefore":9000}
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from sessiond.dialects.base import BadHeader, BadLine
from sessiond.dialects.lenient_json import fields, join, text
from sessiond.dialects.native.header import header_fields, header_version
from sessiond.model.digests import sha256_hex
from sessiond.model.integers import IntegerDecoder

CURRENT_VERSION: Final = 3
_ID_CHARS: Final = 8
_ID_TRIES: Final = 100
_integer: Final = IntegerDecoder[int](int)


def upgrade_of(header: bytes) -> PiUpgrade | None:
    """Return the migration of a file by its first line; None for a current one. Raises BadHeader."""
    found = header_fields(header)
    if text(found.get("type")) != "session":
        raise BadHeader("is no session header")
    version = header_version(found)
    if version >= CURRENT_VERSION:
        return None
    return PiUpgrade(_header(found), text(found.get("id")) or "", is_list=version < 2)


class PiUpgrade:
    """The migration of one file, a line at a time. Any thread may ask again for a taken line."""

    is_older = True
    # pi itself writes the whole file anew when it opens one.
    spelled = None

    def __init__(self, header: bytes, header_id: str, *, is_list: bool) -> None:
        self.header = header
        self._numbering = _Numbering(header_id) if is_list else None
        # The places in pi's list of parsed lines, by line; 0 for a line that does not parse.
        self._places = array("q", [0])

    @property
    def facts(self) -> Mapping[str, Any]:
        """Return nothing: every version has the header's facts in its header."""
        return {}

    def settings(self) -> Sequence[bytes]:
        """Return nothing: each version has the header's facts in its header."""
        return ()

    def pass_over(self, lines: Sequence[bytes], start: int) -> int:  # noqa: ARG002
        """Return 0: each line is taken by itself."""
        return 0

    def take(self, line: bytes) -> bytes:
        """Return the next line as the current version has it."""
        try:
            found = fields(line)
        except BadLine:
            self._places.append(0)
            return line
        place = 0 if self._numbering is None else self._numbering.add(found)
        self._places.append(place)
        return self._upgraded(line, found, place)

    def peek(self, line: bytes) -> bytes:
        """Return the line as `take` would, without taking it. Raises BadLine."""
        found = fields(line)
        if self._numbering is not None and text(found.get("type")) != "session":
            # Only the form counts here: the id of another place will do.
            found = {"id": Raw(b'"0"')} | found
        return _rename_role(found, None)

    def again(self, seq: int, line: bytes) -> bytes:
        """Return the line `seq`, which was taken before."""
        if not seq:
            return self.header
        try:
            found = fields(line)
        except BadLine:
            return line
        return self._upgraded(line, found, self._places[seq])

    def _upgraded(self, line: bytes, found: dict[str, Raw], place: int) -> bytes:
        if self._numbering is None:
            return _rename_role(found, line)
        return _rename_role(self._numbering.placed(found, place) if place else found, None)


def _header(found: Mapping[str, Raw]) -> bytes:
    """Return the header with the current version, and with the folder that the current version requires.

    A new `version` comes right after `type`.
    """
    members: dict[str, Raw] = {}
    for name, value in found.items():
        members[name] = value
        if name == "type":
            members["version"] = Raw(b"%d" % CURRENT_VERSION)
    members["version"] = Raw(b"%d" % CURRENT_VERSION)
    members.setdefault("cwd", Raw(b'""'))
    return join(members)


class _Numbering:
    """The ids and parents for the entries of a list; each entry is the child of the one before."""

    def __init__(self, header_id: str) -> None:
        self._header_id = header_id
        # The ids by index in pi's list of parsed lines; the header has index 0 and no id.
        self._ids: list[str | None] = [None]
        self._taken: set[str] = set()

    def add(self, found: Mapping[str, Raw]) -> int:
        """Give the next parsed line its place, and an id unless it is a header; return the place."""
        place = len(self._ids)
        is_header = text(found.get("type")) == "session"
        self._ids.append(None if is_header else self._new_id(place))
        return place

    def placed(self, found: dict[str, Raw], place: int) -> dict[str, Raw]:
        """Return the entry at a place with id, parent and first kept entry."""
        ids = self._ids
        if ids[place] is None:
            return found
        above = place - 1
        while above and ids[above] is None:
            above -= 1
        members: dict[str, Raw] = {"type": found["type"]} if "type" in found else {}
        members["id"] = Raw(msgspec.json.encode(ids[place]))
        members["parentId"] = Raw(msgspec.json.encode(ids[above]))
        for name, value in found.items():
            if name == "firstKeptEntryIndex":
                members |= self._first_kept(value, place)
            elif name not in members:
                members[name] = value
        return members

    def _new_id(self, ordinal: int) -> str:
        for attempt in range(_ID_TRIES):
            seed = f"{self._header_id}\0{ordinal}\0{attempt}".encode()
            digest = sha256_hex(seed)
            if digest[:_ID_CHARS] not in self._taken:
                self._taken.add(digest[:_ID_CHARS])
                return digest[:_ID_CHARS]
        raise AssertionError("a hundred digests begin alike")

    def _first_kept(self, raw: Raw, place: int) -> dict[str, Raw]:
        """Return the member with the id for an index; no member for a later index or a header's."""
        try:
            index = _integer.decode(raw)
        except msgspec.DecodeError:
            return {}
        kept = self._ids[index] if 0 <= index <= place else None
        return {} if kept is None else {"firstKeptEntryId": Raw(msgspec.json.encode(kept))}


def _rename_role(found: dict[str, Raw], line: bytes | None) -> bytes:
    """Return the entry as a line, with `hookMessage` renamed to `custom`.

    `line` is the stored line if the entry is unchanged so far, else None.
    """
    message = found.get("message")
    if message is not None and b"hookMessage" in bytes(message):
        try:
            said = fields(message)
        except BadLine:
            said = {}
        if text(said.get("role")) == "hookMessage":
            said["role"] = Raw(b'"custom"')
            found["message"] = Raw(join(said))
            line = None
    return join(found) if line is None else line
