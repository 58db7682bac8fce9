"""The first line of an Operator file.

Operator writes the type `session` and documents the type `session_header`. Its time is a number of
seconds, which tells the first type from pi's header. A native header has the second type too:
`is_native` tells the two apart. `lineage` is sessiond's own member, as in a pi file; only a header
of the type `session` has it.

    {"type":"session","version":3,"id":"…","timestamp":1784000000.25,"cwd":"/x",
     "parent_session":"/sessions/a.jsonl"}
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from sessiond.dialects.base import BadHeader
from sessiond.dialects.lenient_json import is_null, text
from sessiond.dialects.native.header import (
    OPERATORS_OLD_PARENTS,
    header_fields,
    header_version,
    is_native,
)
from sessiond.dialects.times import raw_rfc3339, raw_time
from sessiond.model.entries import Header
from sessiond.model.times import unix_ms

CURRENT_VERSION: Final = 3
LIST_VERSION: Final = 0
"""The version that sessiond gives to the oldest files, which state none: lists of messages."""
_NOT_MINE: Final = "is no session header"


def decode(line: bytes) -> Header:
    """Return the header of a file of any version. Raises BadHeader."""
    found, version = members_of(line)
    if version > CURRENT_VERSION:
        raise BadHeader(f"has version {version}, newer than {CURRENT_VERSION}")
    header_id = text(found.get("id"))
    if not header_id:
        raise BadHeader("has no id")
    parents = (text(found.get(name)) for name in ("parent_session", *OPERATORS_OLD_PARENTS))
    lineage = found.get("lineage")
    return Header(
        version=version,
        id=header_id,
        timestamp=raw_rfc3339(found.get("timestamp", found.get("created_at"))),
        cwd=text(found.get("cwd")) or "",
        parent_session=next(filter(None, parents), None),
        lineage=UNSET if lineage is None or is_null(lineage) else lineage,
    )


def members_of(line: bytes) -> tuple[dict[str, Raw], int]:
    """Return the members of a header and its version. Raises BadHeader."""
    found = header_fields(line)
    match text(found.get("type")):
        case "metadata" if "created_at" in found:
            return found, LIST_VERSION
        case "session" if isinstance(raw_time(found.get("timestamp")), float):
            pass
        case "session_header" if not is_native(found):
            if text(found.get("timestamp")) is not None:
                return found, min(header_version(found), CURRENT_VERSION - 1)
            if any(name in found for name in OPERATORS_OLD_PARENTS):
                return found, min(header_version(found), CURRENT_VERSION - 1)
        case _:
            raise BadHeader(_NOT_MINE)
    return found, CURRENT_VERSION if is_null(found.get("version")) else header_version(found)


def encode(header: Header) -> bytes:
    """Return the first line of a new file."""
    members: dict[str, Any] = {
        "type": "session",
        "version": CURRENT_VERSION,
        "id": header.id,
        "timestamp": seconds(header.timestamp) or 0.0,
        "cwd": header.cwd,
    }
    if header.parent_session is not None:
        members["parent_session"] = header.parent_session
    if not isinstance(header.lineage, UnsetType):
        members["lineage"] = header.lineage
    return msgspec.json.encode(members)


def seconds(time: str | float | None) -> float | None:
    """Return a time as Operator spells it, in seconds since 1970; None for a value that is no time."""
    if isinstance(time, float):
        return time
    ms = None if time is None else unix_ms(str(time))
    return None if ms is None else ms / 1000
