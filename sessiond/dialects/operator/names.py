"""The translation of Operator's envelope to native names and back.

Operator's names are the native ones, but for `provider_id`. Its times are numbers, and it leaves out
what is null.

Law: only the envelope is translated. Payloads, and fields of unknown types, keep their names and
bytes.

    {"id":"aa00000b","timestamp":1784000020.25,"parent_id":"aa00000a","type":"compaction",
     "summary":"…","first_kept_entry_id":"aa000009","tokens_before":90000,"from_hook":false}
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Raw, UnsetType

from sessiond.dialects import copying
from sessiond.dialects.base import BadLine, CopyPlace
from sessiond.dialects.entry_members import ENTRY_PREFIX, type_of_entry
from sessiond.dialects.lenient_json import fields, is_null, join, lenient, one_line, text
from sessiond.dialects.operator.header import seconds
from sessiond.dialects.times import raw_rfc3339
from sessiond.model.entries import (
    ENTRY_TYPES,
    HEADER_TYPES,
    BranchSummary,
    Compaction,
    Custom,
    CustomMessage,
    Entry,
    Label,
    Leaf,
    Message,
    ModelChange,
    Opaque,
    SessionInfoEntry,
    ThinkingLevelChange,
)

# Operator's spelling of "before the first entry" in a branch summary.
_ROOT: Final = "root"

_ONLY_OPERATORS: Final = frozenset({"channel"})
# sessiond's own members of an envelope mean nothing in a file of Operator's.
_ENVELOPE: Final = frozenset({"type", "id", "parent_id", "timestamp", "head", "atom", "atom_of"})
_NAMED: Final = frozenset({"", *ENTRY_TYPES, *HEADER_TYPES, *_ONLY_OPERATORS})
_SUMMARIES: Final = frozenset({"compaction", "branch_summary"})
_NULL: Final = Raw(b"null")
_FALSE: Final = Raw(b"false")
_NAMES: Final = copying.Names("parent_id", "first_kept_entry_id", ("target_id", "from_id"))
_encoder: Final = msgspec.json.Encoder()


def wire(line: bytes) -> bytes:
    """Return the entry of a stored line with native names and times. Raises BadLine."""
    found = fields(line)
    word = text(found.get("type"))
    if word is None:
        raise BadLine("has no type")
    if not text(found.get("id")):
        raise BadLine("has no id")
    if word == "custom":
        word, found = _wrapped(word, found)
    members = {
        "type": found["type"],
        "id": found["id"],
        "parent_id": found.get("parent_id", _NULL),
        "timestamp": Raw(_encoder.encode(raw_rfc3339(found.get("timestamp")))),
    }
    members |= {name: value for name, value in found.items() if name not in _ENVELOPE}
    _to_native(word, members)
    return join(members)


def _wrapped(word: str, found: dict[str, Raw]) -> tuple[str, dict[str, Raw]]:
    """Return type and members of the entry that a custom entry holds, or of the custom entry itself."""
    own_type = (text(found.get("custom_type")) or "").removeprefix(ENTRY_PREFIX)
    if text(found.get("custom_type")) != ENTRY_PREFIX + own_type or own_type in _NAMED:
        return word, found
    data = lenient(found.get("data", b""))
    rest = {name: raw for name, raw in found.items() if name not in {"custom_type", "data"}}
    return own_type, data | rest | {"type": Raw(_encoder.encode(own_type))}


def encode(entry: Entry | Opaque) -> bytes:
    """Return the entry as a line of an Operator file."""
    assert isinstance(entry.id, str), "the writer gives every entry an id"
    members: dict[str, Any] = {"id": entry.id}
    if isinstance(entry.timestamp, str) and (time := seconds(entry.timestamp)) is not None:
        members["timestamp"] = time
    if isinstance(entry.parent_id, str):
        members["parent_id"] = entry.parent_id
    if isinstance(entry, Opaque):
        members["type"], own = _opaque(entry)
    else:
        members["type"] = type_of_entry(entry)
        own = _OWN[type(entry)](entry)
    members |= {
        name: value
        for name, value in own.items()
        if name not in _ENVELOPE and value is not None and not isinstance(value, UnsetType)
    }
    return one_line(_encoder.encode(members))


def placed(line: bytes, place: CopyPlace) -> bytes:
    """Return the line of an entry's copy in another Operator file."""
    if place.first_kept_id is None:
        # Operator keeps nothing if the first kept entry is not before the compaction.
        place = msgspec.structs.replace(place, first_kept_id=place.id)
    made = fields(copying.placed(line, place, _NAMES))
    found = fields(line)
    if made == found:
        return line
    parent_id = made.pop("parent_id", _NULL)
    return join(_with_parent(made, parent_id))


def _with_parent(made: dict[str, Raw], parent_id: Raw) -> dict[str, Raw]:
    """Return the members with the parent at Operator's place; a root has none."""
    if is_null(parent_id):
        return made
    above = {name: made.pop(name) for name in ("id", "timestamp") if name in made}
    return above | {"parent_id": parent_id} | made


def _opaque(entry: Opaque) -> tuple[str, dict[str, Any]]:
    """Return type and members of an entry of a type that sessiond does not know."""
    own = {name: value for name, value in entry.fields.items() if name not in _ENVELOPE}
    if entry.type in _ONLY_OPERATORS:
        return entry.type, own
    return "custom", {"custom_type": ENTRY_PREFIX + entry.type, "data": own}


def _compaction(entry: Compaction) -> dict[str, Any]:
    kept = entry.first_kept_entry_id
    return {
        "summary": entry.summary,
        # An entry that is not before the compaction: Operator then keeps nothing.
        "first_kept_entry_id": kept if isinstance(kept, str) else entry.id,
        "tokens_before": 0 if isinstance(entry.tokens_before, UnsetType) else entry.tokens_before,
        "details": entry.details,
        "from_hook": False,
    }


def _branch_summary(entry: BranchSummary) -> dict[str, Any]:
    return {
        # Operator names the place where the summary stands, not the branch that was left.
        "from_id": entry.parent_id if isinstance(entry.parent_id, str) else _ROOT,
        "summary": entry.summary,
        "details": entry.details,
        "from_hook": False,
    }


def _custom_message(entry: CustomMessage) -> dict[str, Any]:
    return {
        "custom_type": entry.custom_type,
        "content": _blocks(entry.content),
        "display": entry.display,
        "details": entry.details,
    }


def _thinking(entry: ThinkingLevelChange) -> dict[str, Any]:
    level = entry.thinking_level
    return {"thinking_level": "off" if level == "none" else level}


def _blocks(content: Raw) -> Raw:
    """Return the content as a list of blocks: Operator has no other content."""
    said = bytes(content).strip()
    return Raw(b'[{"type":"text","content":%b}]' % said) if said[:1] == b'"' else content


# The members of each type, in the order in which Operator writes them.
_OWN: Final[dict[type[Any], Callable[[Any], dict[str, Any]]]] = {
    Message: lambda entry: {"message": entry.message},
    Compaction: _compaction,
    BranchSummary: _branch_summary,
    Leaf: lambda entry: {"target_id": entry.target_id},
    Label: lambda entry: {"label": entry.label or None, "target_id": entry.target_id},
    ThinkingLevelChange: _thinking,
    ModelChange: lambda entry: {"model_id": entry.model_id, "provider_id": entry.provider},
    SessionInfoEntry: lambda entry: {"name": entry.name},
    Custom: lambda entry: {"custom_type": entry.custom_type, "data": entry.data},
    CustomMessage: _custom_message,
}


def _to_native(word: str, members: dict[str, Raw]) -> None:
    """Convert what Operator spells differently back to its native spelling."""
    if word in _SUMMARIES and members.get("from_hook") == _FALSE:
        # Native summaries do not say that no hook made them.
        del members["from_hook"]
    match word:
        case "compaction":
            if members.get("first_kept_entry_id") == members["id"]:
                members["first_kept_entry_id"] = _NULL
            members.setdefault("tokens_before", Raw(b"0"))
        case "branch_summary" if text(members.get("from_id")) == _ROOT:
            members["from_id"] = _NULL
        case "label" if is_null(members.get("label")) or text(members["label"]) == "":
            members["label"] = _NULL
        case "session_info" if not (text(members.get("name")) or "").strip():
            members["name"] = _NULL
        case "leaf":
            members.setdefault("target_id", _NULL)
        case "custom_message":
            members.setdefault("display", Raw(b"true"))
        case "model_change" if "provider_id" in members and "provider" not in members:
            members["provider"] = members.pop("provider_id")
        case _:
            pass
