"""The migration of files of pi's versions 1 and 2 to version 3.

Version 1 is a list; its entries get ids and parents. Version 2 has another name for one
role. The ids are derived, so migrating a file twice gives identical entries. Lines that
do not parse stay unchanged.

    {"type":"compaction","timestamp":"…","summary":"…","firstKeptEntryIndex":3,"tokensBefore":9000}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Raw

from sessiond.dialects.base import BadHeader, BadLine
from sessiond.dialects.lenient_json import fields, join, text
from sessiond.dialects.native.header import header_fields, header_version
from sessiond.model.digests import sha256_hex
from sessiond.model.integers import IntegerDecoder

__all__ = ["CURRENT_VERSION", "migrate"]

CURRENT_VERSION: Final = 3
_ID_CHARS: Final = 8
_ID_TRIES: Final = 100
_integer: Final = IntegerDecoder[int](int)


def migrate(lines: Sequence[bytes]) -> list[bytes]:
    """Convert the lines of a file, header first, to the current version. Raises BadHeader."""
    if not lines:
        raise BadHeader("is empty")
    header = header_fields(lines[0])
    if text(header.get("type")) != "session":
        raise BadHeader("is no session header")
    version = header_version(header)
    if version >= CURRENT_VERSION:
        return list(lines)
    migrated = [_header(header)]
    numbering = _Numbering(text(header.get("id")) or "") if version < 2 else None
    for line in lines[1:]:
        try:
            found = fields(line)
        except BadLine:
            migrated.append(line)
            continue
        if numbering is not None:
            found = numbering.place(found)
        migrated.append(_rename_role(found, line if numbering is None else None))
    return migrated


def _header(found: Mapping[str, Raw]) -> bytes:
    """Return the header with the current version; a new `version` comes right after `type`."""
    members: dict[str, Raw] = {}
    for name, value in found.items():
        members[name] = value
        if name == "type":
            members["version"] = Raw(b"%d" % CURRENT_VERSION)
    members["version"] = Raw(b"%d" % CURRENT_VERSION)
    return join(members)


class _Numbering:
    """The ids and parents for the entries of a list; each entry is the child of the one before."""

    def __init__(self, header_id: str) -> None:
        self._header_id = header_id
        # The ids by index in pi's list of parsed lines; the header has index 0 and no id.
        self._ids: list[str | None] = [None]
        self._taken: set[str] = set()
        self._parent_id: str | None = None

    def place(self, found: dict[str, Raw]) -> dict[str, Raw]:
        """Return the entry with id, parent and first kept entry."""
        if text(found.get("type")) == "session":
            self._ids.append(None)
            return found
        entry_id = self._new_id(len(self._ids))
        self._ids.append(entry_id)
        placed = {
            name: Raw(msgspec.json.encode(value))
            for name, value in (
                ("id", entry_id),
                ("parentId", self._parent_id),
            )
        }
        self._parent_id = entry_id
        members: dict[str, Raw] = {"type": found["type"]} if "type" in found else {}
        members |= placed
        for name, value in found.items():
            if name == "firstKeptEntryIndex":
                members |= self._first_kept(value)
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

    def _first_kept(self, raw: Raw) -> dict[str, Raw]:
        """Return the member with the id for an index; no member for any index without an id."""
        try:
            index = _integer.decode(raw)
        except msgspec.DecodeError:
            return {}
        kept = self._ids[index] if 0 <= index < len(self._ids) else None
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
