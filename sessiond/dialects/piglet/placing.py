"""Copies of entries: piglet's lines with another id, another parent and other references.

Law: a line in which nothing changes stays byte for byte. A `meta` line states the id and the folder
of its session, so a copy's `meta` lines state those of the copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw, UnsetType

from sessiond.dialects.base import CopyPlace
from sessiond.dialects.lenient_json import (
    array,
    fields,
    is_null,
    items,
    join,
    lenient,
    reference,
    text,
)
from sessiond.dialects.piglet.header import META, copied, link_of
from sessiond.dialects.piglet.meta import OWN_ID
from sessiond.dialects.piglet.spelling import escaped, is_object
from sessiond.model.entries import Header

_REFERENCES: Final = {"branch_summary": "fromId", "label": "targetId"}
_encode: Final = msgspec.json.Encoder().encode


def placed(line: bytes, place: CopyPlace) -> bytes:
    """Return the line of the copy."""
    found = fields(line)
    word = text(found.get("type")) or ""
    made = {name: value for name, value in found.items() if name not in place.without}
    if word == META:
        if OWN_ID in made and text(made[OWN_ID]) != place.id:
            made[OWN_ID] = _id(place.id)
        return line if made == found else join(made)
    if text(made.get("id")) != place.id:
        made["id"] = _id(place.id)
    _stand(made, place)
    data = made.get("data")
    name = _REFERENCES.get(word)
    if name is not None and data is not None and is_object(data):
        made["data"] = _referring(data, name, place)
    if word == "compact" and place.messages is not None and data is not None:
        kept = (items(data) or [])[: place.messages]
        made["data"] = array(kept)
    return line if made == found else join(made)


def restated(line: bytes, header: Header) -> bytes:
    """Return the line with the id and the folder that a copy's header states.

    A `meta` line states the origin of the copy too, if the header has one.
    """
    found = lenient(line)
    if text(found.get("type")) != META or not is_object(found.get("data")):
        return line
    line = copied(line, header.id, header.cwd)
    if isinstance(header.lineage, UnsetType):
        return line
    found = fields(line)
    data = {
        name: value
        for name, value in fields(found["data"]).items()
        if name not in {"parentId", "forkPoint", "lineage"}
    }
    data |= {name: Raw(escaped(_encode(one))) for name, one in link_of(header.lineage).items()}
    return join(found | {"data": Raw(join(data))})


def _stand(made: dict[str, Raw], place: CopyPlace) -> None:
    """Put the line below its new parent; a root has no `parentId`."""
    old = reference(made.get("parentId")) or None
    new = place.parent_id
    if isinstance(new, UnsetType):
        new = None if old is None else place.ids.get(old, old)
    if new == old:
        return
    if new is None:
        made.pop("parentId", None)
        return
    is_new = is_null(made.get("parentId"))
    made["parentId"] = _id(new)
    if is_new:
        # The parent stands right behind the id.
        rest = {
            name: made.pop(name) for name in list(made) if name not in {"type", "id", "parentId"}
        }
        made |= rest


def _referring(data: Raw, name: str, place: CopyPlace) -> Raw:
    found: Mapping[str, Raw] = fields(data)
    old = text(found.get(name))
    new = None if not old else place.ids.get(old)
    return data if new is None or new == old else Raw(join({**found, name: _id(new)}))


def _id(entry_id: str) -> Raw:
    return Raw(escaped(_encode(entry_id)))
