"""Copies of entries: lines with another id, another parent and other references.

Law: a payload passes through as bytes. A line in which no member changes stays byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from sessiond.dialects.base import CopyPlace
from sessiond.dialects.lenient_json import array, fields, items, join, reference

_encode: Final = msgspec.json.Encoder().encode


class Names(Struct, frozen=True):
    """The names of the members that refer to entries, in one dialect."""

    parent_id: str
    first_kept_id: str
    others: tuple[str, ...]


def placed(line: bytes, place: CopyPlace, names: Names) -> bytes:
    """Return the line of the copy."""
    found = fields(line)
    made = {name: value for name, value in found.items() if name not in place.without}
    _refer(made, "id", place.id)
    targets = {names.parent_id: place.parent_id, names.first_kept_id: place.first_kept_id}
    for name in (*targets, *names.others):
        to = targets.get(name, UNSET)
        _refer(made, name, _renamed(made, name, place) if to is UNSET else to)
    if place.messages is not None:
        replacement = items(made.get("messages", b"[]")) or []
        made["messages"] = array(replacement[: place.messages])
    return line if made == found else join(made)


def _renamed(made: Mapping[str, Raw], name: str, place: CopyPlace) -> str | UnsetType | None:
    """Return the new id that a member refers to; UNSET if the reference does not change."""
    old = reference(made.get(name))
    return UNSET if old is None else place.ids.get(old, UNSET)


def _refer(made: dict[str, Raw], name: str, to: str | UnsetType | None) -> None:
    if not isinstance(to, UnsetType) and reference(made.get(name)) != to:
        made[name] = Raw(_encode(to))
