"""The native dialect: the small facts that are read from a line, and times."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from sessiond.dialects.base import BadLine
from sessiond.dialects.lenient_json import fields, items, join, text, with_field
from sessiond.dialects.native import rows
from sessiond.dialects.native.dialect import NATIVE
from sessiond.errors import EntryInvalid
from sessiond.model.entries import (
    Message,
)
from sessiond.model.times import rfc3339, unix_ms
from sessiond.model.usage import Usage
from tests.kit.lines import line_of

# -- small readings ----------------------------------------------------------


def test_the_model_is_named_by_a_change_or_by_an_assistant() -> None:
    named = NATIVE.model(line_of(type="model_change", model_id="m", provider="p"))
    assert named is not None
    assert (named.model_id, named.provider) == ("m", "p")
    said = {"role": "assistant", "model": "m2", "content": []}
    named = NATIVE.model(line_of(type="message", message=said))
    assert named is not None
    assert (named.model_id, named.provider) == ("m2", None)


@pytest.mark.parametrize(("level", "shown"), [("high", "high"), ("none", "off"), (5, "off")])
def test_a_thinking_level_is_an_open_word(level: object, shown: str) -> None:
    assert (
        NATIVE.thinking_level(line_of(type="thinking_level_change", thinking_level=level)) == shown
    )


@pytest.mark.parametrize(
    ("members", "shown"),
    [
        ({"type": "message", "message": {"role": "user", "content": "a\n\n b"}}, "a b"),
        ({"type": "message", "message": {"role": "user", "content": "x" * 61}}, "x" * 60 + "..."),
        ({"type": "message", "message": {"role": "user", "content": "x" * 60}}, "x" * 60),
        (
            {
                "type": "message",
                "message": {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "hm"},
                        {"type": "text", "text": "Yes."},
                    ],
                },
            },
            "Yes.",
        ),
        (
            {
                "type": "message",
                "message": {
                    "role": "assistant",
                    "content": [
                        {"type": "toolCall", "name": "read", "arguments": {"text": "no"}},
                    ],
                },
            },
            "[read]",
        ),
        ({"type": "message", "message": {"role": "user", "contents": [{"content": "op"}]}}, "op"),
        ({"type": "message", "message": {"role": "bashExecution", "command": "ls"}}, "ls"),
        ({"type": "message", "message": {"role": "system"}}, "[system]"),
        (
            {"type": "message", "message": {"role": "user", "content": [{"type": "image"}]}},
            "[image]",
        ),
        ({"type": "message", "message": {"role": "user", "content": [5, None, "x"]}}, "[user]"),
        ({"type": "message", "message": "text"}, ""),
        ({"type": "custom_message", "content": "note"}, "note"),
        ({"type": "branch_summary", "summary": "tried"}, "tried"),
        ({"type": "compaction", "messages": []}, ""),
        ({"type": "label", "label": "pivot"}, "pivot"),
        ({"type": "session_info", "name": "Title"}, "Title"),
        ({"type": "thinking_level_change", "thinking_level": "high"}, "high"),
        ({"type": "model_change", "model_id": "m"}, "m"),
        ({"type": "custom", "custom_type": "todo"}, "todo"),
        ({"type": "zz"}, ""),
    ],
)
def test_a_preview_is_the_first_words(members: dict[str, Any], shown: str) -> None:
    assert NATIVE.preview(line_of(**members)) == shown


@given(words=st.text(max_size=200), escaped=st.booleans())
def test_a_preview_of_a_long_text_begins_like_the_text(*, words: str, escaped: bool) -> None:
    said = words + "y" * 2_000
    message = {"role": "user", "content": said}
    encoded = json.dumps({"type": "message", "id": "e1", "message": message}, ensure_ascii=escaped)
    line = encoded.encode()
    shown = NATIVE.preview(line)
    one_line = " ".join(said.split())
    # A terminal obeys some characters instead of showing them.
    marks = "\u061c\u200e\u200f\ufeff"
    turns = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    seen = "".join(
        "\ufffd"
        if character in marks
        or unicodedata.category(character) == "Cc"
        or unicodedata.bidirectional(character) in turns
        else character
        for character in one_line
    )
    assert shown == seen[:60].rstrip() + "..."


def test_a_reading_tells_texts_calls_and_results() -> None:
    reading = NATIVE.reading(
        line_of(
            type="message",
            message={
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm"},
                    {"type": "text", "text": "Reading."},
                    {"type": "toolCall", "id": "t1", "name": "read", "arguments": {"path": "a"}},
                    {"type": "image", "data": ""},
                    {"type": "zz"},
                ],
                "model": "m",
                "usage": {"input": 1, "output": 2},
            },
        )
    )
    assert reading is not None
    assert [(block.kind, block.text, block.id, block.name) for block in reading.blocks] == [
        ("thinking", "hm", "", ""),
        ("text", "Reading.", "", ""),
        ("tool_call", "", "t1", "read"),
        ("image", "", "", ""),
        ("other", "", "", ""),
    ]
    assert reading.blocks[2].arguments == Raw(b'{"path":"a"}')
    assert (reading.role, reading.model_id, reading.usage) == (
        "assistant",
        "m",
        Usage(input_tokens=1, output_tokens=2, total_tokens=3),
    )


@pytest.mark.parametrize(
    "message",
    [
        {
            "role": "toolResult",
            "toolCallId": "t1",
            "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            "isError": True,
        },
        {
            "role": "tool",
            "contents": [
                {"type": "tool_result", "id": "t1", "content": "a\nb", "is_error": True},
            ],
        },
    ],
)
def test_a_result_is_read_alike_from_a_message_or_a_block(message: dict[str, Any]) -> None:
    reading = NATIVE.reading(line_of(type="message", message=message))
    assert reading is not None
    [block] = reading.blocks
    assert (block.kind, block.text, block.id, block.is_error) == ("tool_result", "a\nb", "t1", True)


def test_a_command_of_the_user_is_read_as_text() -> None:
    message = {"role": "bashExecution", "command": "ls", "output": "a"}
    reading = NATIVE.reading(line_of(type="message", message=message))
    assert reading is not None
    assert [block.text for block in reading.blocks] == ["$ ls\na"]


# -- times and loose reading -------------------------------------------------


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("2026-01-15T10:30:00.000Z", "2026-01-15T10:30:00.000Z"),
        ("2026-01-15T12:30:00+02:00", "2026-01-15T10:30:00.000Z"),
        ("2026-01-15T10:30:00", "2026-01-15T10:30:00.000Z"),
        ("2026-04-27T14:00:00.250831204Z", "2026-04-27T14:00:00.250Z"),
        (1784000000.25, "2026-07-14T03:33:20.250Z"),
        (1784000000, "2026-07-14T03:33:20.000Z"),
        (1784000000250, "2026-07-14T03:33:20.250Z"),
        (1e300, ""),
        ("yesterday", ""),
        ("", ""),
        (None, ""),
    ],
)
def test_a_time_is_shown_in_one_spelling(value: str | float | None, shown: str) -> None:
    assert rfc3339(value) == shown
    assert NATIVE.timestamp(line_of(type="zz", timestamp=value)) == shown


def test_a_number_out_of_range_is_no_time() -> None:
    assert NATIVE.timestamp(b'{"type":"zz","id":"a","timestamp":1e999}') == ""
    assert NATIVE.timestamp(b'{"type":"zz","id":"a","timestamp":[]}') == ""
    assert unix_ms("2026-02-01T09:00:01.000Z") == 1769936401000
    assert unix_ms("no") is None


LONE = st.integers(0xD800, 0xDFFF).map(lambda code: f"\\u{code:04x}") | st.integers(
    0xD800, 0xDFFF
).map(lambda code: f"\\u{code:04X}")


PIECES = LONE | st.sampled_from(
    ["\\\\", '\\"', "x", "é", "\\n", "\\ud83d\\ude00", "\ue000", "ud83d"]
)


@given(st.lists(PIECES, max_size=12), st.lists(PIECES, max_size=12))
def test_half_surrogate_pairs_are_read_and_kept(one: list[str], other: list[str]) -> None:
    first, second = "".join(one), "".join(other)
    value = f'{{"s":"{second}","n":1.50}}'
    line = f'{{"type":"zz","id":"e1","a":"{first}","b":{value},"c":["{second}",2]}}'.encode()
    found = fields(line)
    assert join(found) == line
    assert bytes(found["b"]) == value.encode()
    assert items(found["c"]) == [Raw(f'"{second}"'.encode()), Raw(b"2")]
    read = text(found["a"])
    assert read is not None
    read.encode()
    assert NATIVE.row(line).id == "e1"


def test_an_id_with_half_a_pair_is_readable_text() -> None:
    assert NATIVE.row(rb'{"type":"zz","id":"a\ud83d"}').id == "a\ufffd"


@pytest.mark.parametrize("line", [b'{"\xff":1}', rb'{"a":"\ud83d","b":}', b"[1]"])
def test_what_is_no_object_has_no_fields(line: bytes) -> None:
    with pytest.raises(BadLine):
        fields(line)


def test_a_message_that_is_no_object_has_no_reading() -> None:
    assert NATIVE.reading(line_of(type="message", message="text")) is None


def test_one_field_is_set_and_the_others_stay() -> None:
    line = b'{"type":"session","id":"a","n":1.50,"z":[ ]}'
    assert with_field(line, "id", b'"b"') == b'{"type":"session","id":"b","n":1.50,"z":[ ]}'
    assert with_field(line, "new", b"1").endswith(b'"z":[ ],"new":1}')
    with pytest.raises(BadLine):
        with_field(b"[]", "id", b"1")


def test_what_is_no_text_or_list_reads_as_none() -> None:
    assert text(None) is None
    assert text(b"5") is None
    assert text(rb'"\q\ud83d"') is None
    assert items(b"{}") is None
    assert items(rb'{"a":"\ud83d"}') is None


@pytest.mark.parametrize(
    "message",
    [
        b'{"role":"user","content":"x"}',
        b'{"role":"user"}',
        b'{"role":"tool","content":[]}',
        b'{"role":"toolResult","model":"m"}',
        b'{"role":"user","role":"assistant","model":"m"}',
        b'{"role":"user","r\\u006fle":"assistant","model":"m"}',
        b'{"role":"user","content":"she said \\"role\\""}',
        b'{"role":"users"}',
        b'{"role":"assistant","model":"m"}',
        b'{"content":"first","role":"user"}',
        b'{ "role":"user"}',
        b'{"role":""}',
        b'{"role":"user\\u0041"}',
        b'[{"role":"user"}]',
    ],
)
def test_a_message_is_to_the_index_the_same_before_and_after_it_is_stored(message: bytes) -> None:
    entry = Message(id="m1", parent_id=None, timestamp="", message=Raw(message))
    try:
        before = NATIVE.row_of(entry)
    except EntryInvalid:
        return
    assert NATIVE.row(NATIVE.encode(entry)) == before


@given(
    members=st.fixed_dictionaries(
        {"type": st.sampled_from(["progress", "user", "message", "usage", "session"])},
        optional={
            "id": st.sampled_from(["a", "", 5]),
            "parent_id": st.sampled_from(["b", "", None, 7]),
            "head": st.sampled_from(["main", "", "side", None]),
            "timestamp": st.sampled_from(["2026-01-01T00:00:00.000Z", "x", 5, 1.5, None, True]),
            "atom": st.sampled_from([[1, 2], [2, 1], None, "x"]),
            "atom_of": st.sampled_from(["s", None]),
            "message": st.sampled_from([None, {"role": "user"}, {"role": ""}, 5]),
            "data": st.just({"type": "user"}),
        },
    )
)
def test_a_record_that_says_nothing_has_one_row_either_way(members: dict[str, Any]) -> None:
    line = line_of(**members)
    if members["type"] == "message" and members.get("message"):
        return
    try:
        long = rows._unusual_row(line)
    except BadLine:
        with pytest.raises(BadLine):
            NATIVE.row(line)
        return
    short = NATIVE.row(line)
    if long.atom is None:
        # Without an append nobody asks whose it is.
        long.atom_of = short.atom_of = None
    assert short == long
