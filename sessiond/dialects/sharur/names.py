"""The translation of sharur's lines to native lines and back.

Law: only the envelope is translated. Payloads, and fields of unknown types, keep their names and
bytes. What sharur has no member for gets a member of its own, which sharur ignores: so a `session_info` may
have the settings `compaction`, `dryRun` and `systemPrompt`, which its documents give to a session.

    {"type":"compaction","id":"…13","parentId":"…12","timestamp":"2026-04-27T14:00:40.250831204Z",
     "summary":"…","firstKeptEntryId":"…07","tokensBefore":31000,"tokensAfter":6200}

A `custom_message` of sharur holds a whole message. On the wire its `content` and `role` stand by
themselves; a message with more members than these is there whole, as `custom_message_body`.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any, Final

import msgspec
from msgspec import Raw, UnsetType

from sessiond.dialects.base import BadLine
from sessiond.dialects.entry_members import own_members, type_of_entry
from sessiond.dialects.lenient_json import fields, is_null, join, lenient, one_line, text
from sessiond.dialects.sharur.header import settings_read, settings_written
from sessiond.dialects.sharur.values import go_json, go_time
from sessiond.dialects.times import raw_rfc3339
from sessiond.model.entries import (
    BranchSummary,
    Compaction,
    CustomMessage,
    Entry,
    Label,
    Opaque,
    SessionInfoEntry,
)
from sessiond.model.row import KIND_OF_TYPE, Kind

# sharur knows no `leaf` record: such a line of another program is an unknown record to it.
KIND_OF_SHARUR_TYPE: Final[dict[str, Kind]] = {
    word: kind for word, kind in KIND_OF_TYPE.items() if word != "leaf"
}
_KNOWN_TYPES: Final = frozenset({"message", *KIND_OF_SHARUR_TYPE})

# The members of a record, in the order in which sharur writes them.
MEMBERS: Final = (
    "type",
    "id",
    "parentId",
    "timestamp",
    "version",
    "cwd",
    "parentSession",
    "message",
    "provider",
    "modelId",
    "thinkingLevel",
    "summary",
    "firstKeptEntryId",
    "tokensBefore",
    "tokensAfter",
    "fromId",
    "targetId",
    "label",
    "name",
    "customType",
    "data",
)
_SHARUR_NAMES: Final = {
    "parent_id": "parentId",
    "turn_status": "turnStatus",
    "started_at": "startedAt",
    "ended_at": "endedAt",
    "thinking_level": "thinkingLevel",
    "model_id": "modelId",
    "first_kept_entry_id": "firstKeptEntryId",
    "tokens_before": "tokensBefore",
    "tokens_after": "tokensAfter",
    "from_id": "fromId",
    "custom_type": "customType",
    "target_id": "targetId",
    "dry_run": "dryRun",
    "system_prompt": "systemPrompt",
}
_NATIVE_NAMES: Final = {sharur: native for native, sharur in _SHARUR_NAMES.items()}
TAKEN: Final = frozenset({"parentId", "kind"})
"""Members of an envelope that no native envelope has: an unknown type has no fields of these names."""
_ENVELOPE: Final = TAKEN | {"type", "id", "parent_id", "timestamp", "head", "atom", "atom_of"}
_PLACES: Final = {name: place for place, name in enumerate(MEMBERS)}
_SAID: Final = frozenset({"role", "content", "timestamp"})
_BODY: Final = "custom_message_body"
_NULL: Final = Raw(b"null")


def type_of(found: dict[str, Raw]) -> str | None:
    """Return the type of a record; a record without a type has the one that `kind` names."""
    word = text(found.get("type"))
    if word is None and "type" not in found:
        word = text(found.get("kind"))
    return "session" if word == "header" else word


def wire(line: bytes, header_ids: AbstractSet[str]) -> bytes:
    """Return the entry of a stored line as a native line. Raises BadLine."""
    found = fields(line)
    word = type_of(found)
    if word is None:
        raise BadLine("has no type")
    if not text(found.get("id")):
        raise BadLine("has no id")
    members = {
        "type": go_json(word) if "type" not in found else found["type"],
        "id": found["id"],
        "parent_id": _parent(found.get("parentId"), header_ids),
        "timestamp": Raw(msgspec.json.encode(raw_rfc3339(found.get("timestamp")))),
    }
    known = word in _KNOWN_TYPES
    for name, value in found.items():
        # A stray member with a native name does not replace the one that sharur uses.
        native = _NATIVE_NAMES.get(name, name) if known else name
        stray = known and name in _SHARUR_NAMES
        if name not in _ENVELOPE and not (stray and _SHARUR_NAMES[name] in found):
            members[native] = value
    _to_native(word, members)
    return join(members)


def encode(entry: Entry | Opaque, header_id: str) -> bytes:
    """Return the entry as a line of the file with this header."""
    assert isinstance(entry.id, str), "the writer gives every entry an id"
    parent_id = None if isinstance(entry.parent_id, UnsetType) else entry.parent_id
    members: dict[str, Any] = {"type": type_of_entry(entry), "id": entry.id}
    if parent_id or header_id:
        members["parentId"] = parent_id or header_id
    if not isinstance(entry.timestamp, UnsetType):
        members["timestamp"] = go_time(entry.timestamp)
    own = own_members(entry, _SHARUR_NAMES, _KNOWN_TYPES)
    if not isinstance(entry, Opaque):
        _to_sharur(entry, own, members.get("timestamp"))
    names = sorted(own.keys() - _ENVELOPE, key=lambda name: _PLACES.get(name, len(_PLACES)))
    members |= {name: own[name] for name in names}
    return one_line(join({name: go_json(value) for name, value in members.items()}))


def _parent(raw: Raw | None, header_ids: AbstractSet[str]) -> Raw:
    """Return the native parent; the header is the parent of an entry without one."""
    if raw is None or is_null(raw) or text(raw) in {"", *header_ids}:
        return _NULL
    return raw


def _to_sharur(entry: Entry, own: dict[str, Any], timestamp: Any) -> None:
    """Convert values that sharur spells differently, beyond the names of their members."""
    match entry:
        case Compaction() if own.get("firstKeptEntryId") is None:
            own["firstKeptEntryId"] = ""
        case BranchSummary() if not entry.from_id:
            own.pop("fromId", None)
        case Label() if not entry.label:
            own.pop("label", None)
        case SessionInfoEntry():
            if not entry.name:
                own.pop("name", None)
            if isinstance(entry.compaction, Raw):
                own["compaction"] = settings_written(entry.compaction)
        case CustomMessage():
            message = {"role": go_json(own.pop("role", "user")), "content": own.pop("content")}
            if timestamp is not None:
                message["timestamp"] = go_json(timestamp)
            own["message"] = Raw(join(message))
            if own.pop("display"):
                return
            own["display"] = False
        case _:
            pass


def _to_native(word: str, members: dict[str, Raw]) -> None:
    """Convert values that sharur spells differently to their native spelling."""
    match word:
        case "compaction":
            _null_if_empty(members, "first_kept_entry_id")
        case "branch_summary":
            _null_if_empty(members, "from_id")
        case "label":
            _null_if_empty(members, "label")
        case "session_info":
            _null_if_empty(members, "name")
            settings = settings_read(members.get("compaction"))
            if isinstance(settings, Raw):
                members["compaction"] = settings
        case "custom_message":
            _spread(members)
        case _:
            pass


def _null_if_empty(members: dict[str, Raw], name: str) -> None:
    """Set a member without a value to null: sharur leaves an empty text out."""
    if bytes(members.get(name, b'""')) == b'""':
        members[name] = _NULL


def _spread(members: dict[str, Raw]) -> None:
    """Replace the message of a custom message by its content and role."""
    body = members.pop("message", None)
    said = lenient(body or b"")
    members["content"] = said.get("content", Raw(b'""'))
    members.setdefault("display", Raw(b"true"))
    if text(said.get("role")) == "assistant":
        members["role"] = said["role"]
    if body is not None and (said.keys() - _SAID or not said):
        members[_BODY] = body
