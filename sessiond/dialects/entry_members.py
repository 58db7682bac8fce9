"""The type and the members of an entry, and the entry that members make."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw, UnsetType

from sessiond import typed
from sessiond.dialects.lenient_json import items, join
from sessiond.model.entries import Entry, Opaque
from sessiond.model.escapes import whole_characters

ENTRY_PREFIX: Final = "sessiond.entry."
"""The beginning of the custom type under which a file keeps an entry that its program lacks."""

# Members that travel as bytes; the last one is a list of such values.
_PAYLOADS: Final = frozenset(
    {"message", "blocks", "content", "data", "details", "compaction", "metadata", "messages"}
)
_LIST: Final = "messages"


def entry_of(members: Mapping[str, Raw], kind: type[Entry]) -> Entry:
    """Return the entry of this type that a line's members make. Raises ValidationError.

    A payload keeps its bytes, half a character included; elsewhere half a character becomes U+FFFD.
    """
    try:
        return typed.decode(join(members), kind)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        # msgspec refuses half of a surrogate pair, also in bytes that it only passes on.
        payloads = {name: raw for name, raw in members.items() if name in _PAYLOADS}
    plain = {name: Raw(whole_characters(bytes(raw))) for name, raw in members.items()}
    stand_in = {name: Raw(b"[]" if name == _LIST else b"null") for name in payloads}
    made = typed.decode(join(plain | stand_in), kind)
    for name, raw in payloads.items():
        value = items(raw) if name == _LIST else raw
        if value is None:
            raise msgspec.ValidationError(f"Expected `array` - at `$.{name}`")
        setattr(made, name, value)
    return made


def type_of_entry(entry: Entry | Opaque) -> str:
    """Return the type that an entry has in a native file."""
    word = entry.type if isinstance(entry, Opaque) else entry.__struct_config__.tag
    assert isinstance(word, str), "every entry type has its tag"
    return word


def own_members(
    entry: Entry | Opaque, names: Mapping[str, str], known_types: Collection[str]
) -> dict[str, Any]:
    """Return the fields of an entry by the names of a dialect.

    The fields of a type that the dialect's program does not know keep their names.
    """
    if isinstance(entry, Opaque):
        known = entry.type in known_types
        return {
            names.get(name, name) if known else name: value for name, value in entry.fields.items()
        }
    return {
        names.get(name, name): value
        for name in entry.__struct_fields__
        if not isinstance(value := getattr(entry, name), UnsetType)
    }
