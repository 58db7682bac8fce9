"""A second reader of sharur's files, written from the facts about sharur and from nothing of sessiond.

The reader does what sharur does: Go's scanner reads lines of less than 64 KiB, each line is decoded
into one record type, `Load` takes the last record with an id as the leaf, the state comes from the
path, and the list for the model from the state.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

__all__ = ["Loaded", "Unreadable", "load", "load_flat"]

TOKEN_MAX = 64 * 1024
TEXTS = (
    "type",
    "id",
    "parentId",
    "cwd",
    "parentSession",
    "provider",
    "modelId",
    "thinkingLevel",
    "summary",
    "firstKeptEntryId",
    "fromId",
    "targetId",
    "label",
    "name",
    "customType",
    "kind",
)
NUMBERS = ("version", "tokensBefore", "tokensAfter")
MESSAGE = {
    "id": str,
    "role": str,
    "content": str,
    "thinking": str,
    "toolCallId": str,
    "images": list,
    "toolCalls": list,
    "usage": dict,
}


class Unreadable(Exception):
    """sharur reads nothing of this file."""


@dataclass
class Loaded:
    """The knowledge that sharur has of a session after it has loaded the file."""

    session_id: str
    parent_session: str
    records: list[dict[str, Any]]
    leaf: str
    name: str = ""
    provider: str = ""
    model: str = ""
    thinking: str = ""
    transcript: list[dict[str, Any]] = field(default_factory=list)
    llm: list[dict[str, Any]] = field(default_factory=list)


def load(data: bytes, leaf: str = "") -> Loaded:
    """Return the session in a file, at the last record or at the given one."""
    records = [decode(line) for line in scan(data)]
    if not records or records[0]["type"] != "session":
        raise Unreadable("no header")
    with_id = [record for record in records if record.get("id")]
    header = records[0]
    found = Loaded(
        header["id"], header.get("parentSession", ""), records, leaf or with_id[-1]["id"]
    )
    fold(found, path_to(with_id, found.leaf))
    return found


def load_flat(data: bytes) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the header and the messages of a file, as sharur read them before it had a tree."""
    header, *lines = [json.loads(line) for line in scan(data)]
    if header.get("kind") != "header":
        raise Unreadable("no header")
    for line in lines:
        for name in ("kind", "role", "content"):
            must(line, name, str)
        must(line, "raw", dict)
    messages = [line for line in lines if line.get("kind") == "message"]
    if any(
        (one["role"], one["content"]) != (one["raw"]["role"], one["raw"]["content"])
        for one in messages
    ):
        raise Unreadable("a message that is another one in full")
    return header, [one["raw"] for one in messages]


def scan(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    for line in lines:
        # The scanner's buffer holds the newline, too.
        if len(line) + 1 > TOKEN_MAX:
            raise Unreadable("bufio.Scanner: token too long")
    return [line.removesuffix(b"\r") for line in lines if line.strip()]


def decode(line: bytes) -> dict[str, Any]:
    """Return a record as Go's decoder makes it of one type; a member of another type is an error."""
    record: dict[str, Any] = json.loads(line)
    for name in TEXTS:
        must(record, name, str)
    for name in NUMBERS:
        must(record, name, int)
    must_be_time(record, "timestamp")
    if not record.get("type"):
        kind = record.get("kind", "")
        record["type"] = "session" if kind == "header" else kind
    message = record.get("message")
    if message is not None:
        must(record, "message", dict)
        for name, kind in MESSAGE.items():
            must(message, name, kind)
        must_be_time(message, "timestamp")
        for call in message.get("toolCalls") or []:
            must(call, "id", str)
            must(call, "name", str)
            must(call, "args", dict)
            must(call, "position", int)
        for image in message.get("images") or []:
            must(image, "mimeType", str)
            must(image, "data", str)
        for name in ("promptTokens", "completionTokens", "totalTokens"):
            must(message.get("usage") or {}, name, int)
    return record


def must(found: dict[str, Any], name: str, kind: type) -> None:
    value = found.get(name)
    if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
        raise Unreadable(f"json: cannot unmarshal {name}")


def must_be_time(found: dict[str, Any], name: str) -> None:
    must(found, name, str)
    if name in found:
        stamp = found[name]
        if not stamp.endswith("Z") and stamp[-6] not in "+-":
            raise Unreadable(f"parsing time {name}")
        # Python reads six digits of the fraction, Go nine.
        whole, point, rest = stamp.partition(".")
        digits = rest.rstrip("Z")[:6] if point else ""
        datetime.fromisoformat(f"{whole}.{digits}+00:00" if digits else whole)


def path_to(records: list[dict[str, Any]], leaf: str) -> list[dict[str, Any]]:
    """Return the records from the root down to the leaf; a parent that is not there ends the walk."""
    by_id = {record["id"]: record for record in records}
    found: list[dict[str, Any]] = []
    at = leaf
    while at in by_id and by_id[at] not in found:
        found.append(by_id[at])
        at = by_id[at].get("parentId", "")
    found.reverse()
    return found


def fold(found: Loaded, path: list[dict[str, Any]]) -> None:
    compaction: dict[str, Any] | None = None
    for record in path:
        match record["type"]:
            case "message":
                found.transcript.append({**(record.get("message") or {}), "id": record["id"]})
            case "session_info":
                found.name = record.get("name", "")
            case "model_change":
                found.provider = record.get("provider", "")
                found.model = record.get("modelId", "")
            case "thinking_level_change":
                found.thinking = record.get("thinkingLevel", "")
            case "compaction":
                compaction = record
                freed = max(0, record.get("tokensBefore", 0) - record.get("tokensAfter", 0))
                said = f"Context compacted. Freed {freed} tokens."
                found.transcript.append({"role": "compaction", "content": said, "id": ""})
            case _:
                pass
    found.llm = list(found.transcript)
    if compaction is not None:
        compacted(found, compaction)


def compacted(found: Loaded, compaction: dict[str, Any]) -> None:
    summary = {"role": "success", "content": compaction.get("summary", "")}
    kept = compaction.get("firstKeptEntryId", "")
    if not kept:
        found.llm = [summary]
        return
    for index, message in enumerate(found.transcript):
        if message["id"] == kept:
            found.llm = [summary, *found.transcript[index:]]
            return
