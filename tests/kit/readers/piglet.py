"""piglet's files, read as piglet reads them: a second reader, which knows nothing of sessiond.

Law: this follows the description of piglet's program, step by step, and asks no code of the daemon.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

__all__ = ["Item", "PigletFile", "decoded"]

Json = Any
LINE_MAX = 10 * 1024 * 1024
MESSAGES = {"user": "user", "assistant": "assistant", "tool_result": "toolResult"}
TIME = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)",
)
NO_TIME = (datetime(1, 1, 1, tzinfo=UTC), 0)


@dataclass
class Item:
    """One entry of the tree."""

    type: str
    id: str
    parent: str
    time: tuple[datetime, int]
    data: Json
    before: int


@dataclass
class PigletFile:
    """A file as piglet has it in memory."""

    content: bytes
    items: dict[str, Item] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    meta: dict[str, Json] = field(default_factory=dict)
    leaf: str = ""
    skipped: int = 0
    counted: int = 0

    def __post_init__(self) -> None:
        unnamed = 0
        for line in self.content.split(b"\n"):
            if not line.strip():
                continue
            assert len(line) < LINE_MAX, "piglet opens no file with such a line"
            try:
                item = decoded(line)
            except (ValueError, TypeError, KeyError):
                self.skipped += 1
                continue
            if item.type == "meta":
                self.meta = item.data
                continue
            if not item.id:
                item.id, item.parent = f"L{unnamed}", self.leaf or item.parent
                unnamed += 1
            self.items[item.id] = item
            self.leaf = item.id
            self.count(item)
            if item.type == "label":
                self.labels[item.data["targetId"]] = item.data["label"]
        if not self.meta:
            raise ValueError("session file has no metadata")

    def count(self, item: Item) -> None:
        """Count messages as a list of sessions does: in the order of the file."""
        if item.type == "compact":
            self.counted = len(item.data or ())
        elif item.type in MESSAGES or item.type == "custom_message":
            self.counted += 1

    @property
    def title(self) -> str:
        title: str = self.meta.get("title", "")
        return title

    def path(self, leaf: str | None = None) -> list[Item]:
        found: list[Item] = []
        at = self.leaf if leaf is None else leaf
        while at in self.items and self.items[at] not in found:
            found.append(self.items[at])
            at = self.items[at].parent
        return found[::-1]

    def messages(self, leaf: str | None = None) -> list[Json]:
        """Return the messages that the model sees."""
        found: list[Json] = []
        for item in self.path(leaf):
            if item.type == "compact" and (said := replacement(item.data)):
                found = said
            elif item.type in MESSAGES:
                found.append({"role": MESSAGES[item.type]} | item.data)
            elif item.type == "custom_message":
                found.append(extension(item.data))
        return found

    def set_labels(self) -> dict[str, str]:
        return {target: label for target, label in self.labels.items() if label}

    def tree(self) -> list[tuple[str, int]]:
        """Return the ids of the tree with their depths, in piglet's order."""
        active = {item.id for item in self.path()}
        rows: list[tuple[str, int]] = []
        waiting = [(item, 0) for item in reversed(self.children("", ()))]
        while waiting:
            item, depth = waiting.pop()
            rows.append((item.id, depth))
            waiting += [(one, depth + 1) for one in reversed(self.children(item.id, active))]
        return rows

    def children(self, parent: str, active: Any) -> list[Item]:
        below = [item for item in self.items.values() if item.parent == parent]
        return sorted(below, key=lambda item: (item.id not in active, item.time))


def decoded(line: bytes) -> Item:
    """Return the entry of a line. Raises ValueError or TypeError where Go's decoder fails."""
    found = json.loads(line)
    if not isinstance(found, dict):
        raise TypeError(found)
    for name in ("type", "id", "parentId", "ts"):
        if not isinstance(found.get(name) or "", str):
            raise TypeError(name)
    word, data = found.get("type") or "", found.get("data")
    if word == "meta" and not isinstance(data, dict):
        raise TypeError("data")
    time = moment(found["ts"]) if found.get("ts") is not None else NO_TIME
    before = found.get("tokensBefore") or 0
    return Item(word, found.get("id") or "", found.get("parentId") or "", time, data, before)


def moment(text: str) -> tuple[datetime, int]:
    parts = TIME.fullmatch(text)
    if parts is None:
        raise ValueError(text)
    nanoseconds = int((parts[2] or "0")[:9].ljust(9, "0"))
    return datetime.fromisoformat(parts[1] + parts[3]), nanoseconds


def replacement(data: Json) -> list[Json]:
    return [
        {"role": MESSAGES[one["type"]]} | one["data"]
        for one in data or ()
        if one["type"] in MESSAGES
    ]


def extension(data: Json) -> Json:
    if data["role"] == "assistant":
        return {"role": "assistant", "content": [{"text": data["content"]}]}
    return {"role": "user", "content": data["content"]}
