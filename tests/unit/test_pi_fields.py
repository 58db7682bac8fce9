"""pi's dialect: the fields of 1.5, what a line is to the index, and the envelope."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import Raw

from sessiond.dialects.base import ContextLine
from sessiond.dialects.pi.dialect import PI
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
from sessiond.model.row import CompactionEffect, Effect, InfoEffect, Kind, LabelEffect
from tests.kit.lines import sample
from tests.unit.pi_lines import LAST, context_at

EDIT = {"target_id": Raw(b'"e1"'), "replacement": Raw(b"null")}
USAGE = {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2}


def line_of(**members: Any) -> bytes:
    return json.dumps({"id": "e1", "parentId": None, **members}, separators=(",", ":")).encode()


# -- the fields of 1.5 -------------------------------------------------------


def test_a_compaction_carries_the_system_prompt_and_edits_change_what_is_kept() -> None:
    lines = sample(PI, "pi-1.5-fields")[1:]
    found = context_at(lines, "2000000e")
    assert [
        (name[-2:], message["role"])
        for name, message in zip(found["sources"], found["messages"], strict=True)
    ] == [
        ("0b", "system"),
        ("0b", "compactionSummary"),
        ("06", "assistant"),
        ("07", "toolResult"),
        ("0c", "user"),
        ("0d", "system"),
        ("0e", "assistant"),
    ]
    assert found["messages"][3]["content"] == [{"type": "text", "text": "(cut)"}]
    assert found["messages"][3]["toolCallId"] == "t1"
    assert found["messages"][4]["content"] == []
    assert found["messages"][5]["content"] == ""


def test_before_a_compaction_system_messages_stay() -> None:
    found = context_at(sample(PI, "pi-1.5-fields")[1:], "20000008")
    assert [message["role"] for message in found["messages"]] == [
        "system",
        "user",
        "assistant",
        "user",
        "assistant",
        "toolResult",
        "system",
    ]


def edited(replacements: Sequence[object], target: bytes) -> list[dict[str, Any]]:
    lines = [target]
    for number, replacement in enumerate(replacements):
        parent = "e1" if number == 0 else f"x{number - 1}"
        members = {} if replacement is LAST else {"replacement": replacement}
        lines.append(
            line_of(type="context_edit", id=f"x{number}", parentId=parent, targetId="e1", **members)
        )
    found: list[dict[str, Any]] = context_at(lines)["messages"]
    return found


USER = line_of(
    type="message",
    id="e1",
    parentId=None,
    message={"role": "user", "content": "old", "timestamp": 1},
)


ASSISTANT = line_of(
    type="message",
    id="e1",
    parentId=None,
    message={"role": "assistant", "content": [], "timestamp": 1},
)


@pytest.mark.parametrize(
    ("replacements", "target", "content"),
    [
        ([{"content": "new"}], USER, "new"),
        ([{"content": [{"type": "text", "text": "n"}]}], USER, [{"type": "text", "text": "n"}]),
        ([{"content": "new"}], ASSISTANT, [{"type": "text", "text": "new"}]),
        ([{"content": "one"}, {"content": "two"}], USER, "two"),
        ([None, {"content": "back"}], USER, "back"),
        ([LAST], USER, "old"),
        ([5], USER, "old"),
        ([{}], USER, "old"),
        ([{"content": "x"}], line_of(type="custom_message", content="old", display=True), "x"),
    ],
)
def test_the_latest_edit_of_an_entry_wins(
    replacements: list[object], target: bytes, content: object
) -> None:
    [message] = edited(replacements, target)
    assert message["content"] == content
    assert edited([*replacements, None], target) == []


def test_an_edit_changes_only_what_has_a_content() -> None:
    bash = line_of(
        type="message",
        id="e1",
        parentId=None,
        message={"role": "bashExecution", "command": "ls", "output": "a"},
    )
    assert edited([{"content": "x"}], bash) == [
        {"role": "bashExecution", "command": "ls", "output": "a"}
    ]
    summary = line_of(type="branch_summary", summary="s", fromId="root", timestamp="x")
    assert edited([{"content": "x"}], summary) == [
        {"role": "branchSummary", "summary": "s", "fromId": "root", "timestamp": None}
    ]


def test_an_edit_of_an_entry_that_is_not_in_the_range_does_nothing() -> None:
    stray = line_of(type="context_edit", id="x", parentId="e1", targetId="gone", replacement=None)
    nobody = line_of(type="context_edit", id="y", parentId="x", replacement=None)
    assert len(context_at([USER, stray, nobody])["messages"]) == 1


@pytest.mark.parametrize(
    ("role", "content"), [("user", []), ("assistant", []), ("toolResult", []), ("system", "")]
)
def test_a_missing_content_reads_as_an_empty_one(role: str, content: object) -> None:
    for members in ({}, {"content": None}):
        [message] = context_at(
            [line_of(type="message", id="e1", parentId=None, message={"role": role, **members})]
        )["messages"]
        assert message == {"role": role, "content": content}


def test_an_extensions_message_without_content_has_an_empty_one() -> None:
    [message] = context_at([line_of(type="custom_message", customType="c", display=True)])[
        "messages"
    ]
    assert message == {
        "role": "custom",
        "customType": "c",
        "content": [],
        "display": True,
        "timestamp": None,
    }


def test_a_null_elsewhere_in_a_message_changes_no_byte() -> None:
    body = b'{"role":"user","content":"null","details":null,"n":1.50}'
    line = b'{"type":"message","id":"e1","parentId":null,"message":' + body + b"}"
    [message] = PI.context([ContextLine("e1", Kind.USER, line)])
    assert message.body == body


def test_usage_and_entries_of_other_programs_are_kept_and_say_nothing() -> None:
    lines = sample(PI, "pi-1.5-fields")[1:]
    kinds = {json.loads(line)["type"]: PI.row(line).kind for line in lines}
    for word in ("usage", "leaf", "active_tools_change"):
        assert kinds[word] == Kind.OPAQUE
    assert kinds["context_edit"] == Kind.CONTEXT_EDIT


def test_an_older_compaction_in_the_kept_range_gives_nothing() -> None:
    lines = [
        ContextLine("n", Kind.COMPACTION, line_of(type="compaction", id="n", summary="new")),
        ContextLine("e1", Kind.USER, USER, kept=True),
        ContextLine("o", Kind.COMPACTION, line_of(type="compaction", id="o", summary="old")),
    ]
    assert [message.source for message in PI.context(lines)] == ["n", "e1"]


def test_a_compaction_that_keeps_nothing_names_itself() -> None:
    found = context_at(sample(PI, "pi-1.5-fields")[1:], "20000012")
    assert [message["role"] for message in found["messages"]] == ["compactionSummary"]
    row = PI.row(line_of(type="compaction", firstKeptEntryId="e1"))
    assert row.effect == CompactionEffect(None, replacement=False)


# -- rows and envelope -------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "effect"),
    [
        ({"type": "label", "targetId": "t", "label": "x"}, LabelEffect("t", "x")),
        ({"type": "label", "targetId": "t"}, LabelEffect("t", None)),
        ({"type": "label"}, LabelEffect("", None)),
        ({"type": "session_info", "name": "n"}, InfoEffect({"title": "n"})),
        ({"type": "session_info"}, InfoEffect({"title": None})),
        ({"type": "compaction", "firstKeptEntryId": "k"}, CompactionEffect("k", replacement=False)),
        ({"type": "compaction", "messages": []}, CompactionEffect(None, replacement=False)),
        ({"type": "leaf", "targetId": "t"}, None),
    ],
)
def test_an_effect_is_read_leniently(members: dict[str, Any], effect: Effect | None) -> None:
    assert PI.row(line_of(**members)).effect == effect


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ({"role": "user"}, Kind.USER),
        ({"role": "assistant", "model": {}}, Kind.ASSISTANT),
        ({"role": "toolResult"}, Kind.TOOL),
        ({"role": "bashExecution"}, Kind.OTHER_ROLE),
        ({"role": "hookMessage"}, Kind.OTHER_ROLE),
        ({"role": 5}, Kind.OPAQUE),
        ("text", Kind.OPAQUE),
        (None, Kind.OPAQUE),
    ],
)
def test_a_message_of_any_shape_stays_an_entry(message: object, kind: Kind) -> None:
    assert PI.row(line_of(type="message", message=message)).kind == kind


def test_an_empty_parent_is_a_root() -> None:
    line = line_of(type="message", parentId="", message={"role": "user"})
    assert PI.row(line).parent_id is None
    assert json.loads(PI.wire(line))["parent_id"] is None
    assert PI.row(line_of(type="zz", parentId="")).parent_id is None


def test_labels_and_names_are_nodes_and_a_move_is_an_entry_at_the_target() -> None:
    assert PI.rules.records == frozenset()
    move = PI.encode(
        Custom(custom_type="sessiond.leaf", data=Raw(b"{}"), id="m", parent_id="e1", timestamp="t")
    )
    second = line_of(
        type="message", id="e2", parentId="e1", message={"role": "user", "content": "b"}
    )
    assert context_at([USER, second, move])["sources"] == ["e1"]
    label = line_of(type="label", id="l", parentId="e1", targetId="e1", label="x")
    after = line_of(type="message", id="e3", parentId="l", message={"role": "user", "content": "c"})
    assert context_at([USER, label, after])["sources"] == ["e1", "e3"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            {"type": "thinking_level_change", "thinkingLevel": "high"},
            {"type": "thinking_level_change", "thinking_level": "high"},
        ),
        (
            {"type": "model_change", "provider": "p", "modelId": "m"},
            {"type": "model_change", "provider": "p", "model_id": "m"},
        ),
        (
            {"type": "compaction", "firstKeptEntryId": "e1", "fromHook": True, "zzTop": 1},
            {"type": "compaction", "first_kept_entry_id": None, "from_hook": True, "zzTop": 1},
        ),
        (
            {"type": "branch_summary", "fromId": "root", "summary": "s"},
            {"type": "branch_summary", "from_id": None, "summary": "s"},
        ),
        ({"type": "branch_summary", "fromId": "x"}, {"type": "branch_summary", "from_id": "x"}),
        ({"type": "label", "targetId": "t"}, {"type": "label", "target_id": "t", "label": None}),
        ({"type": "session_info", "name": ""}, {"type": "session_info", "name": None}),
        ({"type": "session_info"}, {"type": "session_info", "name": None}),
        (
            {"type": "custom", "customType": "c", "data": {"customType": 1}},
            {"type": "custom", "custom_type": "c", "data": {"customType": 1}},
        ),
        (
            {"type": "context_edit", "targetId": "t", "replacement": None},
            {"type": "context_edit", "target_id": "t", "replacement": None},
        ),
        ({"type": "zz", "targetId": "t"}, {"type": "zz", "targetId": "t"}),
        (
            {"type": "model_change", "model_id": "a", "modelId": "b"},
            {"type": "model_change", "model_id": "b"},
        ),
        (
            {"type": "model_change", "modelId": "b", "model_id": "a"},
            {"type": "model_change", "model_id": "b"},
        ),
    ],
)
def test_the_envelope_has_native_names_on_the_wire(
    line: dict[str, Any], expected: dict[str, Any]
) -> None:
    wire = PI.wire(line_of(timestamp="2026-01-01T01:00:00+01:00", **line))
    envelope = {"id": "e1", "parent_id": None, "timestamp": "2026-01-01T00:00:00.000Z"}
    assert json.loads(wire) == envelope | expected
    assert wire.startswith(b'{"type":')


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (Label(target_id="t", label=None), {"targetId": "t"}),
        (Label(target_id="t", label="x"), {"targetId": "t", "label": "x"}),
        (SessionInfoEntry(name=None), {"name": ""}),
        (SessionInfoEntry(name="n"), {"name": "n"}),
        (BranchSummary(summary="s", from_id=None), {"summary": "s", "fromId": "root"}),
        (
            Compaction(summary="s"),
            {"summary": "s", "firstKeptEntryId": "e1", "tokensBefore": 0},
        ),
        (
            Compaction(summary="s", first_kept_entry_id="k", tokens_before=5, tokens_after=1),
            {"summary": "s", "firstKeptEntryId": "k", "tokensBefore": 5, "tokensAfter": 1},
        ),
        (ThinkingLevelChange(thinking_level="high"), {"thinkingLevel": "high"}),
        (ModelChange(model_id="m", provider="p"), {"modelId": "m", "provider": "p"}),
        (
            CustomMessage(custom_type="c", content=Raw(b'"x"'), display=True, role="user"),
            {"customType": "c", "content": "x", "display": True},
        ),
        (
            Message(message=Raw(b'{"role":"user","content":\n"x"}'), turn_status="completed"),
            {"message": {"role": "user", "content": "x"}, "turnStatus": "completed"},
        ),
        (Opaque(type="zz", fields={"someId": Raw(b"1"), "id": Raw(b"2")}), {"someId": 1}),
        (
            Opaque(
                type="context_edit", fields={"target_id": Raw(b'"t"'), "replacement": Raw(b"null")}
            ),
            {"targetId": "t", "replacement": None},
        ),
    ],
)
def test_an_entry_is_written_with_pis_names(
    entry: Entry | Opaque, expected: dict[str, Any]
) -> None:
    entry.id, entry.timestamp = "e1", "2026-01-01T00:00:00.000Z"
    line = PI.encode(entry)
    assert b"\n" not in line
    written = json.loads(line)
    assert list(written)[:4] == ["type", "id", "parentId", "timestamp"]
    assert {name: written[name] for name in list(written)[4:]} == expected
    assert PI.row_of(entry) == PI.row(line)


@pytest.mark.parametrize(
    ("entry", "path"),
    [
        (Message(message=Raw(b'{"role":"hookMessage","content":"x"}')), "message.role"),
        (Message(message=Raw(b'{"role":"compactionSummary"}')), "message.role"),
        (Message(message=Raw(b"[]")), "message"),
        (Message(message=Raw(b'{"role":"user"}')), "message.content"),
        (Message(message=Raw(b'{"role":"user","content":5}')), "message.content"),
        (Message(message=Raw(b'{"role":"assistant","content":"x"}')), "message.content"),
        (Message(message=Raw(b'{"role":"user","content":["x"]}')), "message.content"),
        (Message(message=Raw(b'{"role":"user","content":[{"text":"x"}]}')), "message.content"),
        (
            Message(message=Raw(b'{"role":"user","content":[{"type":"image"},{"type":"text"}]}')),
            "message.content[1].text",
        ),
        (Message(message=Raw(b'{"role":"toolResult","content":[]}')), "message.toolCallId"),
        (
            Message(message=Raw(b'{"role":"toolResult","toolCallId":"t","content":[]}')),
            "message.toolName",
        ),
        (Message(message=Raw(b'{"role":"bashExecution","command":"ls"}')), "message.output"),
        (Message(message=Raw(b'{"role":"custom","content":"x"}')), "message.customType"),
        (Compaction(messages=[]), "messages"),
        (Compaction(summary=""), "summary"),
        (SessionInfoEntry(), "name"),
        (SessionInfoEntry(name="n", tags=["a"]), "tags"),
        (Leaf(target_id="t"), "type"),
        (
            CustomMessage(custom_type="c", content=Raw(b'"x"'), display=True, role="assistant"),
            "role",
        ),
        (CustomMessage(custom_type="c", content=Raw(b"[1]"), display=True), "content"),
        (Custom(custom_type="x", head="b"), "head"),
        (Opaque(type="session", fields={}), "type"),
        (Opaque(type="leaf", fields={}), "type"),
        (Opaque(type="context_edit", fields={}), "target_id"),
        (Opaque(type="context_edit", fields={"target_id": Raw(b'"t"')}), "replacement"),
        (
            Opaque(
                type="context_edit", fields={"target_id": Raw(b'"t"'), "replacement": Raw(b"5")}
            ),
            "replacement",
        ),
        (
            Opaque(
                type="context_edit", fields={"target_id": Raw(b'"t"'), "replacement": Raw(b"{}")}
            ),
            "replacement.content",
        ),
        (Opaque(type="my.type", fields={"parentId": Raw(b'"x"')}), "parentId"),
        (
            Opaque(type="context_edit", fields=EDIT | {"targetId": Raw(b'"x"')}),
            "target_id",
        ),
    ],
)
def test_what_pi_could_not_read_is_refused_by_field(entry: Entry | Opaque, path: str) -> None:
    entry.id = "e1"
    with pytest.raises(EntryInvalid) as refused:
        PI.row_of(entry)
    assert refused.value.data()["path"] == path


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": "x", "timestamp": 1},
        {"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "image", "data": ""}]},
        {"role": "assistant", "content": [{"type": "toolCall", "id": "t"}], "usage": USAGE},
        {"role": "toolResult", "toolCallId": "t", "toolName": "read", "content": []},
        {"role": "bashExecution", "command": "ls", "output": ""},
        {"role": "custom", "customType": "c", "content": "x"},
        {"role": "system", "content": "x"},
    ],
)
def test_a_message_of_pis_shape_is_stored_as_it_is(message: dict[str, Any]) -> None:
    body = json.dumps(message).encode()
    entry = Message(id="e1", message=Raw(body), parent_id="p")
    row = PI.row_of(entry)
    assert (row.id, row.parent_id) == ("e1", "p")
    assert body in PI.encode(entry)


def test_small_readings_use_pis_names() -> None:
    named = PI.model(line_of(type="model_change", provider="p", modelId="m"))
    assert named is not None
    assert (named.model_id, named.provider) == ("m", "p")
    assert PI.thinking_level(line_of(type="thinking_level_change", thinkingLevel="none")) == "off"
    assert PI.preview(line_of(type="custom", customType="todo")) == "todo"
    assert PI.timestamp(line_of(type="zz", timestamp="2026-01-01T00:00:00Z")) == (
        "2026-01-01T00:00:00.000Z"
    )
    reading = PI.reading(USER)
    assert reading is not None
    assert [block.text for block in reading.blocks] == ["old"]
