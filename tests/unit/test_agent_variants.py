"""Files of other agents that are cut, mixed, doubled or partly unknown: what is whole is in the copy."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sessiond.dialects.native.dialect import NATIVE
from sessiond.errors import SessionCorrupt
from sessiond.service.sources.importing import source_of
from tests.kit.agents import CHATS, CODEX, SAMPLES
from tests.kit.readings import imported, variant

FOLDERS = [(SAMPLES, "claude*.jsonl"), (SAMPLES, "claude-subagent/**/*.jsonl")]
FOLDERS += [(CODEX, "*.jsonl"), (CHATS, "*.jsonl")]
FILES = sorted(path for folder, names in FOLDERS for path in folder.glob(names))
VARIANTS = 60


def words_in(data: bytes) -> set[str]:
    """Return what the messages in the whole lines of a file say."""
    found: dict[Any, set[str]] = {}
    for number, line in enumerate(data.split(b"\n")):
        try:
            one = json.loads(line)
        except ValueError:
            continue
        if isinstance(one, dict):
            # In a chat the last version of a message counts.
            found[(one.get("id") or number, one.get("type"))] = set(_said(one))
    return {word for words in found.values() for word in words if word.strip()}


def _said(line: dict[str, Any]) -> Iterator[str]:
    kind, payload = line.get("type"), line.get("payload")
    if kind in {"user", "assistant"} and line.get("uuid") and isinstance(line.get("message"), dict):
        yield from _texts(line["message"].get("content"))
    elif kind in {"user", "gemini"} and isinstance(line.get("id"), str):
        yield from _texts(line.get("content"))
    elif kind == "response_item" and isinstance(payload, dict):
        is_said = payload.get("type") == "message" and payload.get("role") in {"user", "assistant"}
        yield from _texts(payload.get("content") if is_said else None)


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for block in content:
            if isinstance(block, dict) and isinstance(block.get("text"), str):
                yield block["text"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem[-12:])
def test_what_is_whole_is_in_the_copy(path: Path) -> None:
    chance = random.Random(path.stem)
    data = path.read_bytes()
    for _ in range(VARIANTS):
        changed = variant(data, chance)
        source = source_of(path.name, changed)
        try:
            lines, report = imported(source)
        except SessionCorrupt:
            assert not words_in(changed)
            continue
        said = {text for line in lines[1:] for text in _all_texts(json.loads(line))}
        assert words_in(changed) <= said
        assert len({json.loads(line)["id"] for line in lines[1:]}) == report.entries
        for line in lines[1:]:
            assert NATIVE.row(line).id


def _all_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _all_texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _all_texts(one)
