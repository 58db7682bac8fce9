"""sharur's dialect: its lines, its headers, and the files of earlier forms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from sessiond.dialects import recognise, sniff
from sessiond.dialects.base import BadHeader, BadLine
from sessiond.dialects.sharur.dialect import SHARUR
from sessiond.dialects.sharur.values import go_time
from sessiond.errors import EntryInvalid
from sessiond.model.entries import Message, Opaque
from sessiond.model.parsed_message import Block, ParsedMessage
from sessiond.model.usage import Usage
from sessiond.testing.dialects import check_dialect, lines_of

SAMPLES = Path(__file__).parent.parent / "samples" / "sharur"
HEADER = (
    b'{"type":"session","id":"3f8e2b7c","timestamp":"2026-04-27T14:00:00.250831204Z","version":3}'
)


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.jsonl")), ids=lambda p: p.name)
def test_a_real_file_shows_every_promise_kept(path: Path) -> None:
    data = b"".join(line + b"\n" for line in lines_of(SHARUR, path.read_bytes()))
    check_dialect(SHARUR, data)
    check_dialect(recognise(data.split(b"\n")[0])[0], data)


@pytest.mark.parametrize("name", ["sharur", "sharur-branch"])
def test_a_file_of_today_is_not_migrated(name: str) -> None:
    data = (SAMPLES / f"{name}.jsonl").read_bytes()
    assert lines_of(SHARUR, data) == data.split(b"\n")[:-1]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (HEADER.replace(b'"version":3', b'"version":4'), "newer"),
        (HEADER.replace(b'"version":3', b'"version":3,"cwd":"/x"'), "no session header"),
        (HEADER.replace(b'"version":3', b'"version":2'), "no session header"),
        (HEADER.replace(b'"id":"3f8e2b7c"', b'"id":""'), "no id"),
        (HEADER.replace(b'"2026-04-27T14:00:00.250831204Z"', b"1784000000.25"), "no session"),
    ],
)
def test_a_header_of_another_program_is_not_sharurs(line: bytes, why: str) -> None:
    with pytest.raises(BadHeader, match=why):
        SHARUR.decode_header(line)
    found = sniff(line)
    assert found is None or found.name != "sharur"


def test_the_header_is_the_root_of_the_tree() -> None:
    line = b'{"type":"message","id":"00000001","parentId":"3f8e2b7c","message":{"role":"user"}}'
    dialect, _ = recognise(HEADER)
    assert dialect.row(line).parent_id is None
    assert recognise(HEADER.replace(b"3f8e", b"4f8e"))[0].row(line).parent_id == "3f8e2b7c"


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.jsonl")), ids=lambda p: p.name)
def test_a_line_that_is_cut_at_any_byte_is_no_entry(path: Path) -> None:
    first, *lines = path.read_bytes().split(b"\n")[:-1]
    dialect = recognise(first)[0]
    for line in lines:
        for end in range(len(line)):
            with pytest.raises(BadLine):
                dialect.row(line[:end])
    for end in range(len(first)):
        assert sniff(first[:end]) is None


def test_an_upgrade_gives_each_line_again_as_it_was_taken() -> None:
    for name in ("sharur-export", "sharur-legacy-kind"):
        first, *lines = (SAMPLES / f"{name}.jsonl").read_bytes().split(b"\n")[:-1]
        upgrade = SHARUR.upgrade(first)
        assert upgrade is not None
        taken = [upgrade.take(line) for line in (*lines, b"garbage", lines[0])]
        assert upgrade.is_older
        again = [upgrade.again(seq, line) for seq, line in enumerate((*lines, b"garbage"), 1)]
        assert again == taken[:-1]
        assert taken[2] == b"garbage"
        rows = [recognise(first)[0].row(line) for line in (*taken[:2], taken[3])]
        # Two equal lines are two entries, and each one is below the one before.
        assert len({row.id for row in rows}) == 3
        assert [row.parent_id for row in rows] == [None, rows[0].id, rows[1].id]


# -- messages of other programs ----------------------------------------------


STAMP = "2026-01-15T10:30:00.250Z"
TEXT = Block("text", text="Looking.")
CALL = Block("tool_call", id="c1", name="read", arguments=Raw(b'{"path":"a.go"}'))


def composed(role: str, *blocks: Block, usage: Usage | None = None) -> list[Any]:
    said = ParsedMessage(role, blocks, usage=usage)
    messages = SHARUR.compose(said, STAMP)
    for message in messages:
        # What is composed may be stored, and is read as what was said.
        SHARUR.check(Message(message=message))
    return [msgspec.json.decode(message) for message in messages]


def test_an_answer_has_its_parts_in_members_of_their_own() -> None:
    (found,) = composed(
        "assistant",
        Block("thinking", text="hm"),
        TEXT,
        CALL,
        Block("tool_call", id="c2", name="ls", arguments=Raw(b'"{\\"path\\":\\"/\\"}"')),
        Block("tool_call", id="c3", name="now", arguments=Raw(b"[1]")),
        usage=Usage(10, 5, 3, 2, 20),
    )
    assert found == {
        "role": "assistant",
        "content": "Looking.",
        "thinking": "hm",
        "toolCalls": [
            {"id": "c1", "name": "read", "args": {"path": "a.go"}},
            {"id": "c2", "name": "ls", "args": {"path": "/"}},
            {"id": "c3", "name": "now", "args": {}},
        ],
        "usage": {"promptTokens": 15, "completionTokens": 5, "totalTokens": 20},
        "timestamp": "2026-01-15T10:30:00.25Z",
    }


def test_each_result_is_a_message_and_says_that_it_failed() -> None:
    image = Block("image", data="AA==", mime_type="image/png")
    parts = (TEXT, image)
    found = composed(
        "tool",
        Block("tool_result", id="c1", parts=parts),
        Block("tool_result", id="c2", text="no match", is_error=True),
        Block("tool_result", id="c3", text="Error: gone", is_error=True),
    )
    assert [one["content"] for one in found] == ["Looking.", "Error: no match", "Error: gone"]
    assert [one["toolCallId"] for one in found] == ["c1", "c2", "c3"]
    assert found[0]["images"] == [{"mimeType": "image/png", "data": "AA=="}]


def test_an_image_that_is_only_an_address_becomes_a_line() -> None:
    (found,) = composed("user", TEXT, Block("image", url="https://x.example/a.png"))
    assert found["content"] == "Looking.\n[image: https://x.example/a.png]"
    assert composed("custom", TEXT) == []


def test_a_message_of_sharurs_is_composed_as_it_is() -> None:
    for line in (SAMPLES / "sharur.jsonl").read_bytes().split(b"\n")[1:-1]:
        reading = SHARUR.reading(line)
        if reading is None:
            continue
        stored = json.loads(line)["message"]
        (made,) = SHARUR.compose(reading, stored["timestamp"])
        again = json.loads(bytes(made))
        # `position` is where a call stood in the text, which a reading does not say.
        for call in stored.get("toolCalls", ()):
            call.pop("position", None)
        for one in (stored, again):
            one["timestamp"] = one["timestamp"][:19]
        assert again == stored


def test_times_are_written_as_go_writes_them() -> None:
    assert go_time("2026-01-15T10:30:00.000Z") == "2026-01-15T10:30:00Z"
    assert go_time("2026-01-15T12:30:00.250+02:00") == "2026-01-15T10:30:00.25Z"
    assert go_time("2026-01-15T10:30:10.001Z") == "2026-01-15T10:30:10.001Z"
    assert go_time("now") == ""


@pytest.mark.parametrize("name", ["parentId", "kind"])
def test_a_field_that_sharur_takes_for_its_own_is_refused_by_name(name: str) -> None:
    entry = Opaque(type="my.type", id="e1", fields={name: Raw(b'"text"'), "other": Raw(b"1")})
    with pytest.raises(EntryInvalid) as refused:
        SHARUR.row_of(entry)
    assert refused.value.data()["path"] == name
