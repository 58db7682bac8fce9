"""The messages of all transcripts: those of the tests and those of protocol.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sessiond.methods import METHODS
from sessiond.testing.transcripts import Line, parse

REPOSITORY = Path(__file__).parent.parent.parent
NAMES = {name: method.name for method in METHODS for name in (method.name, *method.aliases)}
BLOCK = re.compile(r"^```transcript[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def transcripts() -> Iterator[list[Line]]:
    """Yield the transcripts of the tests and those of protocol.md."""
    for path in sorted((Path(__file__).parent / "transcripts").glob("*.txt")):
        yield parse(path.read_text())
    for block in BLOCK.finditer((REPOSITORY / "protocol.md").read_text()):
        yield parse(block[1])


def messages(arrow: str, lines: list[Line]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every message in one direction with its connection, those of batches too."""
    for line in lines:
        if line.arrow != arrow or line.body == "closed":
            continue
        try:
            body = json.loads(line.body)
        except ValueError:
            continue
        for message in body if isinstance(body, list) else [body]:
            if isinstance(message, dict):
                yield line.connection, message


def answered(lines: list[Line]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Every request that got an answer, with the answer."""
    asked: dict[tuple[str, str], dict[str, Any]] = {}
    for connection, message in messages(">", lines):
        if "method" in message and "id" in message:
            key = (connection, json.dumps(message["id"]))
            assert key not in asked, f"{key} is the id of two requests"
            asked[key] = message
    for connection, message in messages("<", lines):
        request = asked.get((connection, json.dumps(message.get("id"))))
        if request is not None and "id" in message:
            yield request, message
