"""The first line of a pi file.

`lineage` is sessiond's own member. pi ignores unknown members, so a copy can describe its
origin with more than `parentSession`, the path of the original file.

    {"type":"session","version":3,"id":"…","timestamp":"2026-02-01T09:00:00.000Z","cwd":"/x",
     "parentSession":"/sessions/a.jsonl"}
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from sessiond.dialects.base import BadHeader
from sessiond.dialects.lenient_json import is_null, text
from sessiond.dialects.native.header import header_fields, header_version
from sessiond.dialects.pi.migrate import CURRENT_VERSION
from sessiond.dialects.times import raw_rfc3339
from sessiond.model.entries import Header
from sessiond.model.times import rfc3339


def decode(line: bytes) -> Header:
    """Return the header of a file of any version. Raises BadHeader."""
    found = header_fields(line)
    if text(found.get("type")) != "session":
        raise BadHeader("is no session header")
    version = header_version(found)
    if version > CURRENT_VERSION:
        raise BadHeader(f"has version {version}, newer than {CURRENT_VERSION}")
    header_id, timestamp = text(found.get("id")), found.get("timestamp")
    if not header_id:
        raise BadHeader("has no id")
    if timestamp is not None and text(timestamp) is None:
        raise BadHeader("has a time that is no text, as pi never writes it")
    if version >= CURRENT_VERSION and "cwd" not in found:
        raise BadHeader("has no cwd, as pi never writes it")
    lineage = found.get("lineage")
    return Header(
        version=version,
        id=header_id,
        timestamp=raw_rfc3339(timestamp),
        cwd=text(found.get("cwd")) or "",
        parent_session=text(found.get("parentSession")) or text(found.get("branchedFrom")),
        lineage=UNSET if lineage is None or is_null(lineage) else lineage,
    )


def encode(header: Header) -> bytes:
    """Return the first line of a new file."""
    timestamp = header.timestamp
    members: dict[str, Any] = {
        "type": "session",
        "version": CURRENT_VERSION,
        "id": header.id,
        "timestamp": timestamp if isinstance(timestamp, str) else rfc3339(timestamp),
        "cwd": header.cwd,
    }
    if header.parent_session is not None:
        members["parentSession"] = header.parent_session
    if not isinstance(header.lineage, UnsetType):
        members["lineage"] = header.lineage
    return msgspec.json.encode(members)
