"""The effects of entries on their session: labels, moves, facts, compactions, working state.

Two functions that must agree: one takes a typed entry to write, the other the raw
fields of a stored line. There a field of the wrong type has no effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw, UnsetType

from sessiond import typed
from sessiond.dialects.lenient_json import is_null, items, reference, text
from sessiond.model.entries import (
    Compaction,
    Custom,
    Entry,
    Label,
    Leaf,
    Opaque,
    SessionInfoEntry,
)
from sessiond.model.row import CompactionEffect, Effect, InfoEffect, Kind, LabelEffect, LeafEffect
from sessiond.model.working.annotations import custom_effect

_TEXT_FACTS: Final = (
    "name",
    "auto_title",
    "agent",
    "status",
    "plan",
    "model",
    "provider",
    "thinking_level",
    "system_prompt",
)
_RAW_FACTS: Final = ("compaction", "metadata")
_FACTS: Final = (*_TEXT_FACTS, "tags", "dry_run", *_RAW_FACTS)
_words: Final = typed.decoder(list[str])
_flag: Final = typed.decoder(bool)


def effect_of_entry(entry: Entry | Opaque) -> Effect | None:
    """Return the effect of an entry to write."""
    match entry:
        case Label():
            return LabelEffect(entry.target_id, entry.label or None)
        case Leaf():
            return LeafEffect(entry.target_id, entry.reason == "drop")
        case Compaction():
            kept = entry.first_kept_entry_id
            return CompactionEffect(
                None if isinstance(kept, UnsetType) else kept,
                not isinstance(entry.messages, UnsetType),
            )
        case SessionInfoEntry():
            facts = {name: getattr(entry, name) for name in _FACTS}
            return _info({k: v for k, v in facts.items() if not isinstance(v, UnsetType)})
        case Custom(custom_type=custom_type, data=data):
            return custom_effect(custom_type, None if isinstance(data, UnsetType) else data)
        case _:
            return None


def effect_of_fields(kind: int, found: Mapping[str, Raw]) -> Effect | None:
    """Return the effect of a stored line."""
    match kind:
        case Kind.LABEL:
            target = reference(found.get("target_id"))
            return LabelEffect(target or "", text(found.get("label")) or None)
        case Kind.LEAF:
            drop = text(found.get("reason")) == "drop"
            return LeafEffect(reference(found.get("target_id")), drop)
        case Kind.COMPACTION:
            replacement = items(found.get("messages", b"null")) is not None
            return CompactionEffect(reference(found.get("first_kept_entry_id")), replacement)
        case Kind.INFO:
            return _info_of_fields(found)
        case Kind.CUSTOM:
            return custom_effect(text(found.get("custom_type")) or "", found.get("data"))
        case _:
            return None


def _info_of_fields(found: Mapping[str, Raw]) -> InfoEffect:
    facts: dict[str, Any] = {}
    for name in _FACTS:
        raw = found.get(name)
        if raw is None:
            continue
        if is_null(raw):
            facts[name] = None
        elif name in _RAW_FACTS:
            facts[name] = raw
        elif (value := _fact(name, raw)) is not None:
            facts[name] = value
    return _info(facts)


def _fact(name: str, raw: Raw) -> Any:
    """Return the value of a fact; None for a value of the wrong type."""
    if name in _TEXT_FACTS:
        return text(raw)
    try:
        return _words.decode(raw) if name == "tags" else _flag.decode(raw)
    except msgspec.DecodeError:
        return None


def _info(facts: dict[str, Any]) -> InfoEffect:
    """Return the facts by their field in SessionInfo; `name` becomes `title`, "" becomes None."""
    for name in _RAW_FACTS:
        value = facts.get(name)
        if isinstance(value, Raw):
            facts[name] = _compact(value)
    if "name" in facts:
        facts["title"] = facts.pop("name") or None
    return InfoEffect(facts)


def _compact(raw: Raw) -> Raw | None:
    """Return a compact copy of the value, so that its whole line does not stay in memory."""
    encoded = bytes(raw)
    try:
        encoded = msgspec.json.format(encoded, indent=-1)
    except (msgspec.DecodeError, RecursionError):
        # Half a surrogate pair or deep nesting is legal in a file and stays as spelled.
        return Raw(encoded)
    return None if encoded == b"null" else Raw(encoded)
