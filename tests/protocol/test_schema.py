"""protocol.schema.json is today's, and everything that the transcripts show follows it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from sessiond.errors import ERRORS
from sessiond.methods import METHODS
from sessiond.model.entries import ENTRY_TYPES
from sessiond.model.events import NOTIFICATIONS
from sessiond.schema import schema_text
from sessiond.testing.transcripts import Line, parse

REPOSITORY = Path(__file__).parent.parent.parent
SCHEMA: dict[str, Any] = json.loads(schema_text())
NAMES = {name: method.name for method in METHODS for name in (method.name, *method.aliases)}
BLOCK = re.compile(r"^```transcript[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def transcripts() -> Iterator[list[Line]]:
    """Those of the tests and those of protocol.md."""
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


def validator(schema: dict[str, Any]) -> Draft202012Validator:
    return Draft202012Validator({**schema, "$defs": SCHEMA["$defs"]})


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


def test_the_checked_in_schema_is_todays() -> None:
    text = (REPOSITORY / "protocol.schema.json").read_text()
    assert text == schema_text(), "protocol.schema.json is of another day; run: make schema"


def test_the_schema_is_a_schema_and_names_everything() -> None:
    Draft202012Validator.check_schema({"$defs": SCHEMA["$defs"]})
    assert list(SCHEMA["methods"]) == [method.name for method in METHODS]
    assert list(SCHEMA["notifications"]) == list(NOTIFICATIONS)
    assert set(SCHEMA["entries"]) == {"session_header", *ENTRY_TYPES}
    assert [error["code"] for error in SCHEMA["errors"]] == [error.code for error in ERRORS]
    assert all(method["summary"].endswith(".") for method in SCHEMA["methods"].values())


@pytest.mark.parametrize("part", ["params", "result"])
def test_what_transcripts_send_and_get_follows_the_schema(part: str) -> None:
    seen: set[str] = set()
    for lines in transcripts():
        for request, answer in answered(lines):
            name = NAMES.get(request["method"])
            if name is None or "result" not in answer:
                continue
            value = (request.get("params") or {}) if part == "params" else answer["result"]
            validator(SCHEMA["methods"][name][part]).validate(value)
            seen.add(name)
    # These two are notifications in every transcript.
    assert seen == set(SCHEMA["methods"]) - {"initialized", "exit"}


def test_what_transcripts_are_told_follows_the_schema() -> None:
    seen: set[str] = set()
    for lines in transcripts():
        for _, message in messages("<", lines):
            if "method" in message:
                validator(SCHEMA["notifications"][message["method"]]["params"]).validate(
                    message["params"]
                )
                seen.add(message["method"])
    assert {"session/event", "session/synced", "server/draining"} <= seen


def test_what_transcripts_are_refused_with_is_in_the_schema() -> None:
    kinds = {error["code"]: error["kind"] for error in SCHEMA["errors"]}
    seen: set[str] = set()
    for lines in transcripts():
        for _, message in messages("<", lines):
            if "error" in message:
                error = message["error"]
                assert error["data"]["kind"] == kinds[error["code"]]
                assert isinstance(error["data"]["retryable"], bool)
                seen.add(error["data"]["kind"])
    # What takes a second process, a full table, a bug or the end of the daemon is tested elsewhere.
    assert set(kinds.values()) - seen == {"internal", "overloaded", "session_locked", "draining"}


def test_entries_that_are_appended_follow_the_schema() -> None:
    seen: set[str] = set()
    for lines in transcripts():
        for request, answer in answered(lines):
            params = request.get("params") or {}
            if NAMES.get(request["method"]) != "session/append" or "result" not in answer:
                continue
            for entry in params.get("entries") or [e for e in [params.get("entry")] if e]:
                if entry["type"] in SCHEMA["entries"] and "title" not in entry:
                    validator(SCHEMA["entries"][entry["type"]]).validate(entry)
                    seen.add(entry["type"])
    assert {"message", "custom", "label", "leaf", "session_info"} <= seen
