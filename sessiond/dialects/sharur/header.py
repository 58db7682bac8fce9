"""The first line of a sharur file.

{"type":"session","id":"3f8e2b7c-…","timestamp":"2026-04-27T14:00:00.250831204Z","version":3,
 "parentSession":"9d0c1b2a-…"}

pi's first lines look alike. A header of version 3 belongs to sharur if it has no `cwd`: pi always
writes one, and sharur never does. So sessiond keeps the folder of a sharur session in a member
`folder`, which sharur ignores, as it ignores `lineage`. The settings `compaction` and `dryRun` are members of sharur's
documents, which its program does not write.

Entries without a parent name the header as their parent. In a copy under a new id such entries
still name the original's header, whose id stands in `lineage.header_id`, or in
`lineage.header_ids` if the original is a copy too.

The format before the tree has a header of another kind (`migrate` converts the file):

{"kind":"header","id":"1a2b…","parentId":"…","name":"…","model":"llama3","createdAt":1776928014000}
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import UNSET, Raw, UnsetType

from sessiond.dialects.base import BadHeader
from sessiond.dialects.lenient_json import (
    array,
    fields,
    is_null,
    items,
    join,
    lenient,
    one_line,
    text,
)
from sessiond.dialects.native.header import header_fields, header_version
from sessiond.dialects.sharur.values import go_json, go_time
from sessiond.dialects.times import raw_rfc3339, raw_time
from sessiond.model.entries import Header

VERSION: Final = 3
_NOT_SHARUR: Final = "is no session header"
FLAT_VERSION: Final = 1
_VERSIONED: Final = ("type", "version", "v")
_NAMES: Final = {
    "reserve_tokens": "reserveTokens",
    "keep_recent_tokens": "keepRecentTokens",
    "context_window": "contextWindow",
}
"""Names of sharur for settings of a compaction."""
_SETTINGS: Final = {theirs: ours for ours, theirs in _NAMES.items()}
_DRY_RUNS: Final = {b"true": True, b"false": False}
# The members of a header from before the tree that have another name now.
_RENAMED: Final = {"kind", "id", "parentId", "createdAt", "type", "timestamp", "version"}


def decode(line: bytes) -> Header:
    """Return the header in native terms. Raises BadHeader."""
    found = header_fields(line)
    version = VERSION
    if is_flat(found):
        found, version = fields(upgraded(found)), FLAT_VERSION
    if text(found.get("type")) != "session":
        raise BadHeader(_NOT_SHARUR)
    stated = header_version(found)
    if stated < VERSION or "cwd" in found:
        raise BadHeader(_NOT_SHARUR)
    if stated > VERSION:
        raise BadHeader(f"has version {stated}, newer than {VERSION}")
    timestamp = found.get("timestamp")
    if timestamp is not None and text(timestamp) is None:
        raise BadHeader(_NOT_SHARUR)
    header_id = text(found.get("id"))
    if not header_id:
        raise BadHeader("has no id")
    return Header(
        version=version,
        id=header_id,
        timestamp=raw_rfc3339(timestamp),
        cwd=text(found.get("folder")) or "",
        lineage=_lineage(found),
        title=text(found.get("name")) or None,
        model=text(found.get("model")) or None,
        system_prompt=text(found.get("systemPrompt")) or None,
        compaction=settings_read(found.get("compaction")),
        dry_run=_DRY_RUNS.get(bytes(found.get("dryRun", b""))),
    )


def encode(header: Header) -> bytes:
    """Return the first line of a new file."""
    members: dict[str, Any] = {
        "type": "session",
        "id": header.id,
        "timestamp": go_time(header.timestamp),
        "version": VERSION,
    }
    lineage = {} if isinstance(header.lineage, UnsetType) else lenient(header.lineage)
    parent_id = lineage.pop("parent_id", None)
    if not is_null(parent_id):
        members["parentSession"] = parent_id
    if header.parent_session is not None:
        lineage["parent_path"] = go_json(header.parent_session)
    if header.dry_run is not None:
        members["dryRun"] = header.dry_run
    if not isinstance(header.compaction, UnsetType):
        members["compaction"] = settings_written(header.compaction)
    members |= {
        name: value
        for name, value in (
            ("name", header.title),
            ("model", header.model),
            ("systemPrompt", header.system_prompt),
            ("folder", header.cwd),
        )
        if value
    }
    if lineage:
        members["lineage"] = Raw(join(lineage))
    return one_line(join({name: go_json(value) for name, value in members.items()}))


def copied(line: bytes, session_id: str, cwd: str | None) -> bytes:
    """Return the first line of a copy, which names the ids that the original's lines name."""
    found = fields(line)
    lineage = lenient(found.get("lineage", b""))
    if "header_id" not in lineage:
        lineage["header_id"] = found["id"]
    else:
        named = [*(items(lineage.get("header_ids", b"")) or ()), found["id"]]
        lineage["header_ids"] = array(named)
    found["id"] = go_json(session_id)
    if cwd is not None:
        found["folder"] = go_json(cwd)
    found["lineage"] = Raw(join(lineage))
    return join(found)


def header_ids(header: Header) -> frozenset[str]:
    """Return the ids by which the lines of the file name the header."""
    lineage = {} if isinstance(header.lineage, UnsetType) else lenient(header.lineage)
    named = [lineage.get("header_id"), *(items(lineage.get("header_ids", b"")) or ())]
    return frozenset({header.id, *filter(None, map(text, named))})


def settings_read(stored: Raw | None) -> Raw | UnsetType:
    """Return settings of compaction by our names; UNSET for a value that is none."""
    if stored is None or bytes(stored)[:1] != b"{":
        return UNSET
    found = lenient(stored)
    return Raw(join({_SETTINGS.get(name, name): found[name] for name in found}))


def settings_written(settings: Raw) -> Raw:
    """Return settings of compaction by sharur's names."""
    if is_null(settings):
        return settings
    found = lenient(settings)
    return Raw(join({_NAMES.get(name, name): found[name] for name in found}))


def is_flat(found: dict[str, Raw]) -> bool:
    """Return whether a first line is of the format from before the tree, which states no version."""
    return text(found.get("kind")) == "header" and found.keys().isdisjoint(_VERSIONED)


def upgraded(found: dict[str, Raw]) -> bytes:
    """Return the header of a file from before the tree as version 3 has it."""
    members = {
        "type": Raw(b'"session"'),
        "id": found.get("id", Raw(b"null")),
        "timestamp": go_json(go_time(raw_time(found.get("createdAt")) or "")),
        "version": go_json(VERSION),
    }
    if text(found.get("parentId")):
        members["parentSession"] = found["parentId"]
    members |= {name: value for name, value in found.items() if name not in _RENAMED}
    return join(members)


def _lineage(found: dict[str, Raw]) -> Raw | UnsetType:
    """Return where the session comes from; sharur names only the parent session."""
    lineage = lenient(found.get("lineage", b""))
    lineage.pop("parent_id", None)
    if text(found.get("parentSession")):
        lineage = {"parent_id": found["parentSession"], **lineage}
    return Raw(join(lineage)) if lineage else UNSET
