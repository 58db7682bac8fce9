"""The native dialect: what is written, and what a context takes of a line."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from sessiond.dialects import DIALECTS, payload
from sessiond.dialects.base import BadLine, ContextLine
from sessiond.dialects.native.dialect import NATIVE
from sessiond.errors import EntryInvalid
from sessiond.model.entries import (
    BranchSummary,
    Compaction,
    Custom,
    CustomMessage,
    Entry,
    Label,
    Leaf,
    Message,
    ModelChange,
    Opaque,
    SessionInfoEntry,
    ThinkingLevelChange,
)
from sessiond.model.parsed_message import ParsedMessage
from sessiond.model.row import (
    Kind,
)
from sessiond.testing.dialects import entry_of, lines_of
from tests.kit.lines import JSON, SAMPLES, line_of


def context_of(*lines: bytes) -> list[dict[str, Any]]:
    rows = [NATIVE.row(line) for line in lines]
    given_lines = [
        ContextLine(row.id, row.kind, line) for row, line in zip(rows, lines, strict=True)
    ]
    return [json.loads(message.body) for message in NATIVE.context(given_lines)]


# -- writing -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "path"),
    [
        (Message(message=Raw(b"5")), "message"),
        (Message(message=Raw(b'"hi"')), "message"),
        (Message(message=Raw(b"{}")), "message.role"),
        (Message(message=Raw(b'{"role":null}')), "message.role"),
        (Message(message=Raw(b'{"role":""}')), "message.role"),
        (Message(message=Raw(b'{"role":"user"}'), blocks=Raw(b"{}")), "blocks"),
        (CustomMessage(custom_type="", content=Raw(b'"x"'), display=True), "custom_type"),
        (CustomMessage(custom_type="x", content=Raw(b"5"), display=True), "content"),
        (Compaction(), "summary"),
        (Compaction(summary=" "), "summary"),
        (Compaction(summary="s", messages=[]), "summary"),
        (Compaction(first_kept_entry_id="a", messages=[]), "first_kept_entry_id"),
        (Compaction(messages=[Raw(b'{"role":"user"}'), Raw(b"{}")]), "messages[1].role"),
        (Compaction(messages=[Raw(b"1")]), "messages[0]"),
        (Custom(custom_type=""), "custom_type"),
        (ThinkingLevelChange(thinking_level=""), "thinking_level"),
        (ModelChange(model_id=""), "model_id"),
        (Opaque(type="", fields={}), "type"),
        (Opaque(type="session_header", fields={}), "type"),
        (Opaque(type="session", fields={}), "type"),
        (Opaque(type="message", fields={}), "type"),
    ],
)
def test_what_may_not_be_stored_is_refused_by_field(entry: Entry | Opaque, path: str) -> None:
    entry.id = "e1"
    with pytest.raises(EntryInvalid) as refused:
        NATIVE.row_of(entry)
    assert refused.value.data()["path"] == path


@pytest.mark.parametrize(
    "entry",
    [
        Message(message=Raw(b'{"role":"assistant","model":"m","content":[]}'), blocks=Raw(b"[]")),
        Message(message=Raw(b'{"role":"user"}'), head="b", parent_id="p", atom=(1, 3)),
        Message(message=Raw(b'{"role":"assistant","model":{"id":1}}')),
        CustomMessage(custom_type="x", content=Raw(b"[]"), display=False, role="assistant"),
        BranchSummary(summary="", from_id=None),
        Compaction(summary="s"),
        Compaction(summary="s", first_kept_entry_id="k", tokens_before=0),
        Compaction(messages=[]),
        ThinkingLevelChange(thinking_level="high"),
        ModelChange(model_id="m"),
        Custom(custom_type="x", data=Raw(b"null")),
        Label(target_id="t", label=""),
        Leaf(target_id=None, reason="reset"),
        Leaf(target_id="t", reason="drop", head="b"),
        SessionInfoEntry(),
        SessionInfoEntry(name=None, tags=[], dry_run=False, metadata=Raw(b'{"a" :\n1}')),
        SessionInfoEntry(compaction=Raw(b"null")),
        Opaque(type="zz", fields={"a": Raw(b"1.50"), "b": Raw(b"[\n]")}, parent_id="p"),
    ],
)
def test_an_entry_has_the_row_of_its_line(entry: Entry | Opaque) -> None:
    entry.id = "e1"
    line = NATIVE.encode(entry)
    assert b"\n" not in line
    assert NATIVE.row(line) == NATIVE.row_of(entry)
    assert line.startswith(b'{"type":')


def test_a_line_is_spelled_in_one_way() -> None:
    entry = Message(
        message=Raw(b'{"role":"user","n":1.50}'),
        timestamp="2026-01-15T10:30:00.000Z",
        parent_id=None,
        id="e1",
    )
    assert NATIVE.encode(entry) == (
        b'{"type":"message","id":"e1","parent_id":null,"timestamp":"2026-01-15T10:30:00.000Z",'
        b'"message":{"role":"user","n":1.50}}'
    )


def test_an_opaque_entry_cannot_speak_for_its_envelope() -> None:
    entry = Opaque(
        type="zz", id="e1", parent_id="p", fields={"id": Raw(b'"other"'), "more": Raw(b"1")}
    )
    assert NATIVE.encode(entry) == b'{"type":"zz","id":"e1","parent_id":"p","more":1}'


@given(members=st.dictionaries(st.text(), JSON), escaped=st.booleans())
def test_a_payload_comes_back_byte_for_byte(*, members: dict[str, Any], escaped: bool) -> None:
    body = json.dumps({**members, "role": "user"}, ensure_ascii=escaped).encode()
    entry = Message(id="e1", message=Raw(body))
    line = NATIVE.encode(entry)
    assert NATIVE.row(line) == NATIVE.row_of(entry)
    [message] = NATIVE.context([ContextLine("e1", Kind.USER, line)])
    assert message.body == body


# -- context -----------------------------------------------------------------


def test_what_stands_for_another_entry_has_that_entrys_own_fields() -> None:
    messages = context_of(
        line_of(
            type="compaction",
            parent_id="p",
            timestamp="t1",
            summary="S",
            first_kept_entry_id="k",
            tokens_before=5,
            head="b",
            details={"z": 1},
        ),
        line_of(type="branch_summary", timestamp="t2", summary="B", from_id="x"),
        line_of(type="custom_message", atom=[1, 2], custom_type="c", content=[], display=False),
    )
    assert [list(message.items()) for message in messages] == [
        [
            ("role", "compaction_summary"),
            ("timestamp", "t1"),
            ("summary", "S"),
            ("first_kept_entry_id", "k"),
            ("tokens_before", 5),
            ("details", {"z": 1}),
        ],
        [("role", "branch_summary"), ("timestamp", "t2"), ("summary", "B"), ("from_id", "x")],
        [("role", "custom"), ("custom_type", "c"), ("content", []), ("display", False)],
    ]


def test_who_speaks_in_a_custom_message_stands_beside_its_role() -> None:
    [message] = context_of(line_of(type="custom_message", role="assistant", content="x"))
    assert (message["role"], message["custom_role"]) == ("custom", "assistant")


def test_replacement_messages_are_the_context_and_name_the_compaction() -> None:
    line = b'{"type":"compaction","id":"c","messages":[{"role":"user","n":1.50},{"role":"x"}]}'
    found = NATIVE.context([ContextLine("c", Kind.COMPACTION, line)])
    assert [(message.source, message.body) for message in found] == [
        ("c", b'{"role":"user","n":1.50}'),
        ("c", b'{"role":"x"}'),
    ]
    assert context_of(line_of(type="compaction", messages=[])) == []


@pytest.mark.parametrize("summary", ["", None, 5])
def test_a_branch_summary_without_words_gives_nothing(summary: object) -> None:
    assert context_of(line_of(type="branch_summary", summary=summary)) == []
    assert context_of(line_of(type="branch_summary")) == []


def test_an_older_compaction_in_the_kept_range_gives_nothing() -> None:
    user = line_of(type="message", message={"role": "user", "content": "hi"})
    old = line_of(type="compaction", summary="old")
    new = line_of(type="compaction", summary="new")
    assert [m.get("summary") for m in context_of(new, user, old, user)] == ["new", None, None]


def test_entries_that_are_not_for_the_model_give_nothing() -> None:
    assert (
        context_of(
            line_of(type="custom", custom_type="x"),
            line_of(type="label", target_id="e1"),
            line_of(type="zz"),
            line_of(type="message"),
        )
        == []
    )


def test_a_payload_that_no_decoder_would_take_passes() -> None:
    # 1e999 is no float and half a pair no text: only a slice gets them through.
    body = rb'{"role":"user","n":1e999,"c":"\ud83d","d":1.50}'
    line = b'{"type":"message","id":"e1","message":' + body + b"}"
    assert NATIVE.row(line).kind == Kind.USER
    [message] = NATIVE.context([ContextLine("e1", Kind.USER, line)])
    assert message.body == body
    assert NATIVE.wire(line) is line


def test_passing_entries_on_reads_no_payload(monkeypatch: pytest.MonkeyPatch) -> None:
    visits: list[Raw] = []

    def counted(message: Raw) -> ParsedMessage:
        visits.append(message)
        return read(message)

    read = payload.read_payload
    monkeypatch.setattr(payload, "read_payload", counted)
    for dialect in DIALECTS:
        for path in (SAMPLES / dialect.name).glob("*.jsonl"):
            for line in lines_of(dialect, path.read_bytes())[1:]:
                try:
                    row = dialect.row(line)
                except BadLine:
                    continue
                dialect.context([ContextLine(row.id, row.kind, line)])
                dialect.wire(line)
                dialect.preview(line)
                dialect.model(line)
                if (entry := entry_of(dialect, line)) is not None:
                    dialect.encode(entry)
    assert visits == []
    NATIVE.reading(line_of(type="message", message={"role": "user"}))
    assert len(visits) == 1
