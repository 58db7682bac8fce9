"""The type and the own members of an entry that is about to be written."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from msgspec import UnsetType

from sessiond.model.entries import Entry, Opaque

__all__ = ["ENTRY_PREFIX", "own_members", "type_of_entry"]

ENTRY_PREFIX: Final = "sessiond.entry."
"""The beginning of the custom type under which a file keeps an entry that its program lacks."""


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
