"""The first line of a native file.

Operator documents a header of the type `session_header` too; `is_native` tells the two apart.

    {"type":"session_header","version":1,"id":"019a…","timestamp":"2026-01-15T10:30:00.000Z",
     "cwd":"/my/project"}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from sessiond import typed
from sessiond.dialects.base import BadHeader, BadLine
from sessiond.dialects.lenient_json import fields, is_null, one_line, require_readable, text
from sessiond.dialects.times import raw_rfc3339, raw_time
from sessiond.model.entries import Header
from sessiond.model.integers import IntegerDecoder
from sessiond.model.times import rfc3339

HEADER_VERSION: Final = 1
OPERATORS_OLD_PARENTS: Final = ("parent_session_path", "parent_session_file")
"""Members of headers that an older Operator wrote, and that no native header has."""
# The members that Operator's header has too; only sessiond writes the others.
_SHARED: Final = frozenset({"type", "version", "id", "timestamp", "cwd", "parent_session"})
_ONLY_NATIVE: Final = frozenset(Header.__struct_fields__) - _SHARED
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"

_integer: Final = IntegerDecoder[int](int)
_flag: Final = typed.decoder(bool)
_words: Final = typed.decoder(list[str])


def decode(line: bytes) -> Header:
    """Return the header in native terms. Raises BadHeader."""
    found = header_fields(line)
    if text(found.get("type")) != "session_header" or not is_native(found):
        raise BadHeader("is no session header")
    version = header_version(found)
    if version > HEADER_VERSION:
        raise BadHeader(f"has version {version}, newer than {HEADER_VERSION}: a newer version")
    header_id = text(found.get("id"))
    if not header_id:
        raise BadHeader("has no id")
    return Header(
        version=version,
        id=header_id,
        timestamp=raw_rfc3339(found.get("timestamp")),
        cwd=text(found.get("cwd")) or "",
        parent_session=text(found.get("parent_session")),
        lineage=_payload(found.get("lineage")),
        title=text(found.get("title")),
        agent=text(found.get("agent")),
        model=text(found.get("model")),
        tags=_tags(found.get("tags")),
        system_prompt=text(found.get("system_prompt")),
        compaction=_payload(found.get("compaction")),
        dry_run=_bool(found.get("dry_run")),
        metadata=_payload(found.get("metadata")),
        persist=text(found.get("persist")),
        scope=_payload(found.get("scope")),
    )


def encode(header: Header) -> bytes:
    """Return the header line; version and time have one spelling."""
    version = HEADER_VERSION if isinstance(header.version, UnsetType) else header.version
    timestamp = header.timestamp
    written = msgspec.structs.replace(
        header,
        version=version,
        timestamp=timestamp if isinstance(timestamp, str) else rfc3339(timestamp),
    )
    return one_line(msgspec.json.encode(written))


def is_native(found: Mapping[str, Raw]) -> bool:
    """Return whether a header of the type `session_header` is native, not Operator's.

    Law: the answer is true for every header that sessiond writes. sessiond writes its time as a text
    that ends in "Z", and a copy with another time has `lineage`. Operator writes a number, or a text
    without "Z" (Python's isoformat).
    """
    if not _ONLY_NATIVE.isdisjoint(found):
        return True
    if not found.keys().isdisjoint(OPERATORS_OLD_PARENTS):
        return False
    time = raw_time(found.get("timestamp"))
    if isinstance(time, str):
        return not time or time.endswith("Z")
    return time is None


def header_fields(line: bytes) -> dict[str, Raw]:
    """Return the members of a first line. Raises BadHeader."""
    if line.startswith(_BYTE_ORDER_MARK):
        raise BadHeader("begins with a byte order mark")
    try:
        require_readable(line)
    except BadLine as bad:
        raise BadHeader(str(bad)) from None
    try:
        return fields(line)
    except BadLine:
        raise BadHeader("is no session header") from None


def header_version(found: dict[str, Raw]) -> int:
    """Return the version that a header states, 1 if the header states none. Raises BadHeader."""
    raw = found.get("version")
    if raw is None or is_null(raw):
        return 1
    try:
        return _integer.decode(raw)
    except msgspec.DecodeError:
        raise BadHeader("has a version that is no number") from None


def _payload(raw: Raw | None) -> Raw | UnsetType:
    return UNSET if raw is None or is_null(raw) else raw


def _tags(raw: Raw | None) -> list[str] | None:
    if raw is None:
        return None
    try:
        return _words.decode(raw)
    except msgspec.DecodeError:
        return None


def _bool(raw: Raw | None) -> bool | None:
    if raw is None:
        return None
    try:
        return _flag.decode(raw)
    except msgspec.DecodeError:
        return None
