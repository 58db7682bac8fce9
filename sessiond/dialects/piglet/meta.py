"""The `meta` lines behind the first one: each states all facts of the session, and the last one wins.

Such a line has no id and stands in no tree. Its id on the wire is the member `entryId`, which only
sessiond writes, else a digest of the line.

    {"type":"meta","ts":"2026-04-24T10:01:01.104233817-04:00","data":{"id":"7c2f1a90-…",
     "cwd":"/home/ana/shop","model":"m","createdAt":"…","title":"Auth","parentId":"0f5b…"}}
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from sessiond.dialects.base import BadLine
from sessiond.dialects.lenient_json import fields, join, lenient, text
from sessiond.dialects.piglet.header import lineage_in, link_of
from sessiond.dialects.piglet.spelling import is_object
from sessiond.model.digests import sha256_hex
from sessiond.model.entries import Header, SessionInfoEntry

OWN_ID: Final = "entryId"
_ID_CHARS: Final = 16
FACTS: Final = frozenset({"id", "cwd", "model", "createdAt", "title", "lineage"})
"""Members that have a place of their own in a `session_info`, or repeat the header."""
_encode: Final = msgspec.json.Encoder().encode


def id_of(found: dict[str, Raw]) -> str:
    """Return the id of the line on the wire."""
    own = text(found.get(OWN_ID))
    if own:
        return own
    stated = bytes(found.get("ts", b"")) + b"\0" + bytes(found.get("data", b""))
    return sha256_hex(stated)[:_ID_CHARS]


def facts_of(found: dict[str, Raw]) -> dict[str, bytes]:
    """Return the members of the `session_info` that the line stands for. Raises BadLine."""
    if not is_object(found.get("data")):
        raise BadLine("has no data of a session")
    data = fields(found["data"])
    more = {name: value for name, value in data.items() if name not in FACTS}
    return {
        "type": b'"session_info"',
        "name": _text_or_null(data.get("title")),
        "model": _text_or_null(data.get("model")),
        "metadata": join(more) if more else b"null",
    }


def lineage_of_facts(metadata: Raw | None) -> Raw | None:
    """Return the lineage in the metadata of a `session_info`; None for none."""
    found = UNSET if metadata is None else lineage_in(lenient(metadata))
    return None if isinstance(found, UnsetType) else found


def data_of_info(entry: SessionInfoEntry, header: Header) -> dict[str, Any]:
    """Return the data of the line for a `session_info`, which has the facts of the header."""
    data: dict[str, Any] = {"id": header.id, "cwd": header.cwd}
    if model := header.model if isinstance(entry.model, UnsetType) else entry.model:
        data["model"] = model
    data["createdAt"] = header.timestamp
    if title := header.title if isinstance(entry.name, UnsetType) else entry.name:
        data["title"] = title
    if isinstance(entry.metadata, UnsetType):
        return data | link_of(header.lineage)
    return data | lenient(entry.metadata)


def _text_or_null(raw: Raw | None) -> bytes:
    return b"null" if raw is None or not text(raw) else bytes(raw)
