"""The first line of a piglet file, a `meta` line.

`lineage` is sessiond's own member, where the origin of a copy is more than a parent and a count of
messages. piglet ignores unknown members. The time of the header stays as piglet spelled it,
because every later `meta` line repeats the time.

    {"type":"meta","ts":"2026-04-24T10:00:00.104233817-04:00","data":{"id":"7c2f1a90-…",
     "cwd":"/home/ana/shop","createdAt":"2026-04-24T10:00:00.104233817-04:00"}}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from sessiond import typed
from sessiond.dialects.base import BadHeader
from sessiond.dialects.lenient_json import fields, is_null, lenient, text, with_field
from sessiond.dialects.native.header import header_fields
from sessiond.dialects.piglet.spelling import escaped, is_object
from sessiond.model.entries import Header
from sessiond.model.times import is_rfc3339, rfc3339

META: Final = "meta"
VERSION: Final = 1
"""Version of a file, which no line of the file states."""

_encode: Final = msgspec.json.Encoder().encode


class _Link(Struct, omit_defaults=True):
    """The part of a lineage that piglet knows."""

    parent_id: str | None = None
    fork_point: int | None = None


def decode(line: bytes) -> Header:
    """Return the header. Raises BadHeader."""
    found = header_fields(line)
    if text(found.get("type")) != META:
        raise BadHeader("is no session header")
    if not is_object(found.get("data")):
        raise BadHeader("has no data of a session")
    data = fields(found["data"])
    session_id = text(data.get("id"))
    if not session_id:
        raise BadHeader("has no id")
    created = text(data.get("createdAt")) or text(found.get("ts")) or ""
    return Header(
        version=VERSION,
        id=session_id,
        timestamp=created if is_rfc3339(created) else "",
        cwd=text(data.get("cwd")) or "",
        lineage=lineage_in(data),
        title=text(data.get("title")) or None,
        model=text(data.get("model")) or None,
    )


def encode(header: Header) -> bytes:
    """Return the first line of a new file."""
    stamp = header.timestamp
    created = stamp if isinstance(stamp, str) else rfc3339(stamp)
    data: dict[str, Any] = {"id": header.id, "cwd": header.cwd}
    if header.model:
        data["model"] = header.model
    data["createdAt"] = created
    if header.title:
        data["title"] = header.title
    data |= link_of(header.lineage)
    if not isinstance(header.lineage, UnsetType) and _encode(_link(header.lineage)) != bytes(
        header.lineage
    ):
        data["lineage"] = header.lineage
    line = _encode({"type": META, "ts": created, "data": data})
    return escaped(line)


def copied(line: bytes, session_id: str, cwd: str | None) -> bytes:
    """Return a `meta` line of a copy: another id, and another folder unless `cwd` is None."""
    data = with_field(fields(line)["data"], "id", escaped(_encode(session_id)))
    if cwd is not None:
        data = with_field(data, "cwd", escaped(_encode(cwd)))
    return with_field(line, "data", data)


def lineage_in(data: Mapping[str, Raw]) -> Raw | UnsetType:
    """Return the lineage that the data of a `meta` line states; UNSET for none."""
    whole = data.get("lineage")
    if whole is not None and not is_null(whole):
        return whole
    link = _Link(text(data.get("parentId")) or None, _count(data.get("forkPoint")))
    return Raw(_encode(link)) if link != _Link() else UNSET


def link_of(lineage: Raw | UnsetType) -> dict[str, Any]:
    """Return the members of a `meta` line that state a lineage, as far as piglet knows it."""
    if isinstance(lineage, UnsetType):
        return {}
    link = _link(lineage)
    members: dict[str, Any] = {}
    if link.parent_id is not None:
        members["parentId"] = link.parent_id
    if link.fork_point is not None:
        members["forkPoint"] = link.fork_point
    return members


def _link(lineage: Raw) -> _Link:
    found = lenient(lineage)
    return _Link(text(found.get("parent_id")) or None, _count(found.get("fork_point")))


def _count(raw: Raw | None) -> int | None:
    if raw is None:
        return None
    try:
        return typed.decode(raw, int)
    except msgspec.DecodeError:
        return None
