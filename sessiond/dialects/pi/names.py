"""The translation of pi's envelope to native names and back.

Law: only the envelope is translated. Payloads, and fields of unknown types, keep their
names and bytes.

    {"type":"compaction","id":"1000000b","parentId":"1000000a",
     "timestamp":"2026-02-01T09:00:20.000Z","summary":"…","firstKeptEntryId":"10000009",
     "tokensBefore":50000}
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw, UnsetType

from sessiond.dialects.entry_members import own_members, type_of_entry
from sessiond.dialects.lenient_json import fields, is_null, one_line, text
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
from sessiond.model.times import rfc3339

# pi's spelling of "before the first entry" in a branch summary.
ROOT: Final = "root"

# pi knows no `leaf` record: pi reads such a line of another program as an ordinary entry.
KIND_OF_PI_TYPE: Final[dict[str, Kind]] = {
    **{word: kind for word, kind in KIND_OF_TYPE.items() if word != "leaf"},
    "context_edit": Kind.CONTEXT_EDIT,
}
_KNOWN_TYPES: Final = frozenset({"message", *KIND_OF_PI_TYPE})

PI_NAMES: Final = {
    "parent_id": "parentId",
    "turn_status": "turnStatus",
    "started_at": "startedAt",
    "ended_at": "endedAt",
    "thinking_level": "thinkingLevel",
    "model_id": "modelId",
    "first_kept_entry_id": "firstKeptEntryId",
    "tokens_before": "tokensBefore",
    "tokens_after": "tokensAfter",
    "system_message": "systemMessage",
    "from_id": "fromId",
    "from_hook": "fromHook",
    "custom_type": "customType",
    "target_id": "targetId",
}
_NATIVE_NAMES: Final = {pi: native for native, pi in PI_NAMES.items()}
TAKEN: Final = frozenset({"parentId"})
"""Members of an envelope that no native envelope has: an unknown type has no fields of these names."""
_ENVELOPE: Final = TAKEN | {"type", "id", "parent_id", "timestamp", "head", "atom", "atom_of"}
_encoder: Final = msgspec.json.Encoder()


def wire(line: bytes) -> bytes:
    """Return the entry of a stored line with native names and times."""
    found = fields(line)
    word = text(found.get("type")) or ""
    members = {
        "type": bytes(found["type"]),
        "id": bytes(found["id"]),
        "parent_id": _parent(found.get("parentId")),
        "timestamp": _encoder.encode(raw_rfc3339(found.get("timestamp"))),
    }
    known = word in _KNOWN_TYPES
    for name, value in found.items():
        if name in _ENVELOPE:
            continue
        native = _NATIVE_NAMES.get(name, name) if known else name
        # A stray key with a native name does not replace the field that pi uses.
        if name not in members:
            members[native] = bytes(value)
    _to_native(word, members)
    return _object(members)


def encode(entry: Entry | Opaque) -> bytes:
    """Return the entry as a line of a pi file."""
    assert isinstance(entry.id, str), "the writer gives every entry an id"
    parent_id = None if isinstance(entry.parent_id, UnsetType) else entry.parent_id
    members: dict[str, Any] = {"type": type_of_entry(entry), "id": entry.id, "parentId": parent_id}
    if not isinstance(entry.timestamp, UnsetType):
        # The only spelling that every JavaScript engine reads.
        members["timestamp"] = rfc3339(entry.timestamp)
    own = own_members(entry, PI_NAMES, _KNOWN_TYPES)
    if not isinstance(entry, Opaque):
        _to_pi(entry, own)
    members |= {name: value for name, value in own.items() if name not in _ENVELOPE}
    return one_line(_encoder.encode(members))


def _to_pi(entry: Entry, own: dict[str, Any]) -> None:
    """Convert values that pi spells differently, beyond the names of their members."""
    match entry:
        case Compaction():
            # pi spells "keep no entry" as "the first kept entry is the compaction itself".
            own["firstKeptEntryId"] = own.get("firstKeptEntryId") or entry.id
            own.setdefault("tokensBefore", 0)
        case BranchSummary():
            own["fromId"] = entry.from_id or ROOT
        case Label() if not entry.label:
            own.pop("label", None)
        case SessionInfoEntry():
            own["name"] = own.get("name") or ""
        case CustomMessage():
            own.pop("role", None)
        case _:
            pass


def _to_native(word: str, members: dict[str, bytes]) -> None:
    """Convert values that pi spells differently back to their native spelling."""
    match word:
        case "compaction" if members.get("first_kept_entry_id") == members["id"]:
            members["first_kept_entry_id"] = b"null"
        case "branch_summary" if members.get("from_id") == b'"%s"' % ROOT.encode():
            members["from_id"] = b"null"
        case "label" if members.get("label", b'""') == b'""':
            members["label"] = b"null"
        case "session_info" if members.get("name", b'""') == b'""':
            members["name"] = b"null"
        case _:
            pass


def _parent(raw: Raw | None) -> bytes:
    """Return the native parent; an empty parent means a root in pi files."""
    if raw is None or is_null(raw) or bytes(raw) == b'""':
        return b"null"
    return bytes(raw)


def _object(members: dict[str, bytes]) -> bytes:
    return (
        b"{"
        + b",".join(_encoder.encode(name) + b":" + value for name, value in members.items())
        + b"}"
    )
