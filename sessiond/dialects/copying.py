"""An entry in another place: the same line but for its id, its parent and what it refers to.

Law: a payload passes through as bytes, and a line that stands as it stood is the same line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from sessiond.dialects.base import Place
from sessiond.dialects.lenient_json import fields, items, join, reference

__all__ = ["Names", "placed"]

_encode: Final = msgspec.json.Encoder().encode


class Names(Struct, frozen=True):
    """What a dialect calls the members that refer to entries."""

    parent_id: str
    first_kept_id: str
    others: tuple[str, ...]


def placed(line: bytes, place: Place, names: Names) -> bytes:
    """The line of the copy."""
    found = fields(line)
    made = {name: value for name, value in found.items() if name not in place.without}
    _refer(made, "id", place.id)
    targets = {names.parent_id: place.parent_id, names.first_kept_id: place.first_kept_id}
    for name in (*targets, *names.others):
        to = targets.get(name, UNSET)
        _refer(made, name, _renamed(made, name, place) if to is UNSET else to)
    if place.messages is not None:
        replacement = items(made.get("messages", b"[]")) or []
        made["messages"] = Raw(b"[" + b",".join(map(bytes, replacement[: place.messages])) + b"]")
    return line if made == found else join(made)


def _renamed(made: Mapping[str, Raw], name: str, place: Place) -> str | UnsetType | None:
    """What a member refers to here; UNSET where that is what it says already."""
    old = reference(made.get(name))
    return UNSET if old is None else place.ids.get(old, UNSET)


def _refer(made: dict[str, Raw], name: str, to: str | UnsetType | None) -> None:
    if not isinstance(to, UnsetType) and reference(made.get(name)) != to:
        made[name] = Raw(_encode(to))
