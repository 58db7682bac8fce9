"""Operator's reading of its files, written from the description of its format.

Nothing of sessiond is imported here. The reader loads every line before it answers, as Operator does,
and refuses a line that Operator's types would refuse.
"""

from __future__ import annotations

import json
from typing import Any, Final

__all__ = ["OperatorReader"]

Json = Any
_NUMBER: Final = (int, float)
_ROLES: Final = {
    "system",
    "user",
    "assistant",
    "tool",
    "custom",
    "branch_summary",
    "compaction_summary",
}
_LEVELS: Final = {"off", "minimal", "low", "medium", "high", "xhigh", "max"}
# Members of each type, then members that may be missing.
_TYPES: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "message": ({"message": dict}, {"meta": dict}),
    "compaction": (
        {"summary": str, "first_kept_entry_id": str},
        {"tokens_before": int, "details": dict, "from_hook": bool},
    ),
    "branch_summary": ({"from_id": str, "summary": str}, {"details": dict, "from_hook": bool}),
    "leaf": ({}, {"target_id": str}),
    "label": ({"target_id": str}, {"label": str}),
    "thinking_level_change": ({"thinking_level": str}, {}),
    "model_change": ({"model_id": str, "provider_id": str}, {}),
    "session_info": ({}, {"name": str}),
    "custom": ({"custom_type": str}, {"data": object}),
    "custom_message": (
        {"custom_type": str, "content": list},
        {"display": bool, "details": dict},
    ),
    "channel": ({"name": str}, {"chat_id": str, "user_id": str}),
}
_BLOCKS: Final[dict[str, dict[str, Any]]] = {
    "text": {"content": str},
    "image": {"images": list},
    "audio": {"audio": list},
    "thinking": {"content": str},
    "tool_call": {"id": str, "name": str, "args": dict},
    "tool_result": {"id": str, "content": str, "is_error": bool},
}


class OperatorReader:
    """The entries of one file, their index, and the leaf."""

    def __init__(self, content: bytes) -> None:
        header, *entries = [json.loads(line) for line in content.decode().rstrip("\n").split("\n")]
        assert header["type"] in {"session", "session_header"}
        assert isinstance(header["timestamp"], _NUMBER)
        assert isinstance(header["id"], str)
        assert isinstance(header["cwd"], str)
        self.header = header
        self.entries: list[Json] = entries
        self.by_id: dict[str, Json] = {}
        self.labels: dict[str, str] = {}
        self.leaf_id: str | None = None
        for entry in entries:
            _check(entry)
            self._index(entry)

    def _index(self, entry: Json) -> None:
        self.by_id[entry["id"]] = entry
        if entry["type"] == "leaf":
            self.leaf_id = entry.get("target_id")
            return
        self.leaf_id = entry["id"]
        if entry["type"] == "label":
            self.labels.pop(entry["target_id"], None)
            if entry.get("label"):
                self.labels[entry["target_id"]] = entry["label"]

    def branch(self, from_id: str | None) -> list[Json]:
        """Return the path from the root to an entry."""
        found: list[Json] = []
        while from_id is not None and from_id in self.by_id and self.by_id[from_id] not in found:
            found.append(self.by_id[from_id])
            from_id = found[-1].get("parent_id")
        return found[::-1]

    def context(self) -> list[tuple[str, str, list[Json]]]:
        """Return source, role and contents of each message of the context at the leaf."""
        path = self.branch(self.leaf_id)
        at = max((n for n, one in enumerate(path) if one["type"] == "compaction"), default=None)
        if at is None:
            return _messages(path)
        compaction, kept = path[at], list[Json]()
        for entry in path[:at]:
            if kept or entry["id"] == compaction["first_kept_entry_id"]:
                kept.append(entry)
        summary = [{"type": "text", "content": compaction["summary"]}]
        first = (compaction["id"], "compaction_summary", summary)
        return [first, *_messages(kept), *_messages(path[at + 1 :])]

    def settings(self) -> tuple[str, Json]:
        """Return thinking level and model at the leaf."""
        level, model = "off", None
        for entry in self.branch(self.leaf_id):
            if entry["type"] == "thinking_level_change":
                level = entry["thinking_level"]
            elif entry["type"] == "model_change":
                model = {"model_id": entry["model_id"], "provider": entry["provider_id"]}
        return level, model


def _messages(entries: list[Json]) -> list[tuple[str, str, list[Json]]]:
    found: list[tuple[str, str, list[Json]]] = []
    for entry in entries:
        match entry["type"]:
            case "message":
                said = entry["message"]
                found.append((entry["id"], said["role"], said["contents"]))
            case "custom_message":
                found.append((entry["id"], "custom", entry["content"]))
            case "branch_summary" if entry["summary"]:
                summary = [{"type": "text", "content": entry["summary"]}]
                found.append((entry["id"], "branch_summary", summary))
            case _:
                pass
    return found


def _check(entry: Json) -> None:
    """Raise AssertionError for an entry that Operator's types would refuse."""
    assert isinstance(entry["id"], str)
    assert isinstance(entry["timestamp"], _NUMBER)
    assert isinstance(entry.get("parent_id", ""), str | None)
    must, may = _TYPES[entry["type"]]
    for name, kind in must.items():
        assert isinstance(entry[name], kind), name
    for name, kind in may.items():
        assert entry.get(name) is None or isinstance(entry[name], kind), name
    assert entry.keys() <= {"id", "timestamp", "parent_id", "type", *must, *may}
    if entry["type"] == "thinking_level_change":
        assert entry["thinking_level"] in _LEVELS
    if entry["type"] == "message":
        said = entry["message"]
        assert said["role"] in _ROLES
        assert isinstance(said["id"], str)
        assert isinstance(said["timestamp"], _NUMBER)
        _check_blocks(said["contents"])
    if entry["type"] == "custom_message":
        _check_blocks(entry["content"])


def _check_blocks(blocks: list[Json]) -> None:
    for block in blocks:
        for name, kind in _BLOCKS[block["type"]].items():
            assert isinstance(block[name], kind), name
