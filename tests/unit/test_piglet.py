"""piglet's dialect: real files, what piglet makes of them, and what may be written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from sessiond.dialects import recognise, sniff
from sessiond.dialects.base import BadHeader, BadLine, ContextLine, CopyPlace
from sessiond.dialects.piglet.dialect import PIGLET
from sessiond.errors import EntryInvalid
from sessiond.model.entries import (
    BranchSummary,
    Compaction,
    Custom,
    CustomMessage,
    Entry,
    Label,
    Message,
    ModelChange,
    Opaque,
    SessionInfoEntry,
    ThinkingLevelChange,
)
from sessiond.model.parsed_message import Block, ParsedMessage
from sessiond.model.usage import Usage
from sessiond.service.log.indexer import Indexer
from sessiond.session.context.context import plan_context
from sessiond.testing.dialects import check_dialect, lines_of
from tests.kit.lines import SAMPLES, leaf_of
from tests.kit.readers.piglet import PigletFile, decoded

TIME = "2026-11-22T19:00:00.000Z"
HEADER = (
    b'{"type":"meta","ts":"2026-04-24T10:00:00.104233817-04:00","data":{"id":"session-a",'
    b'"cwd":"/p","createdAt":"2026-04-24T10:00:00.104233817-04:00"}}'
)


PIGLET_FILE = (SAMPLES / "piglet" / "piglet.jsonl").read_bytes()


def indexed(data: bytes) -> tuple[Indexer, list[bytes]]:
    """Return the index of a file's content, and the lines as they were indexed."""
    indexer = Indexer(Path("a.jsonl"), in_place=True)
    *lines, tail = data.split(b"\n")
    for seq, line in enumerate(lines):
        indexer.visit(seq, line)
    if tail and indexer.has_begun and indexer.parses(tail):
        indexer.visit(len(lines), tail)
        lines.append(tail)
    upgrade = indexer.upgrade
    if upgrade is not None:
        lines = [upgrade.again(seq, line) for seq, line in enumerate(lines)]
    return indexer, lines


def context(indexer: Indexer, lines: list[bytes]) -> list[Any]:
    session = indexer.session
    seqs = plan_context(session, session.heads["main"].leaf).seqs
    given = [ContextLine(session.names[seq], session.kinds[seq], lines[seq]) for seq in seqs]
    return [json.loads(message.body) for message in indexer.dialect.context(given)]


# -- real files ----------------------------------------------------------------


@pytest.mark.parametrize("path", sorted((SAMPLES / "piglet").glob("*.jsonl")), ids=lambda p: p.name)
def test_a_real_file_shows_every_promise_kept(path: Path) -> None:
    # A line that does not parse is no entry, so that there is nothing to promise of it.
    data = b"".join(line + b"\n" for line in path.read_bytes().splitlines() if b"torn" not in line)
    check_dialect(PIGLET, b"".join(line + b"\n" for line in lines_of(PIGLET, data)))


def test_a_session_of_piglets_is_read_as_piglet_reads_it() -> None:
    indexer, lines = indexed(PIGLET_FILE)
    assert leaf_of(indexer.session) == "6a6b6c6d"
    assert [message["content"] for message in context(indexer, lines)] == [
        "Summary: auth explained; JWT dropped; OAuth chosen",
        [{"text": "OAuth it is."}],
        [{"text": "note from the memory extension"}],
        "add tests",
    ]
    session = indexer.session
    labels = {session.id_of(seq): state.label for seq, state in session.labels.items()}
    assert labels == {"ddeeff00": "pivot"}
    assert session.facts["title"] == "Auth refactor"
    assert session.facts["model"] == "claude-opus-4-6"
    assert len(session.path(session.heads["main"].leaf)) == 12
    assert session.problems == []
    told = PigletFile(PIGLET_FILE)
    assert (told.counted, len(told.path()), len(told.tree())) == (4, 12, 16)
    assert [one for one, _ in told.tree()][-4:] == ["88aa77bb", "11223344", "55667788", "99aabbcc"]


def test_a_fork_of_piglets_names_its_parent_and_keeps_its_reset() -> None:
    indexer, lines = indexed((SAMPLES / "piglet" / "piglet-fork.jsonl").read_bytes())
    assert leaf_of(indexer.session) == "b0000005"
    assert [one["content"] for one in context(indexer, lines)] == ["fresh trunk after reset"]
    lineage = json.loads(bytes(indexer.session.facts["lineage"]))
    assert lineage == {"parent_id": "7c2f1a90-3b5e-4f0d-9a41-5be0c6d2e811", "fork_point": 3}


def test_entries_without_ids_are_counted_as_piglet_counts_them() -> None:
    indexer, lines = indexed((SAMPLES / "piglet" / "piglet-legacy.jsonl").read_bytes())
    session = indexer.session
    assert leaf_of(indexer.session) == "cafe0001"
    assert [one for one in session.names if one] == ["L0", "L1", "L2", "cafe0001"]
    said = [message["content"] for message in context(indexer, lines)]
    assert said == ["summary", "mixed: first entry with an id"]
    assert indexer.upgrade is not None
    assert [(one.line, one.kind) for one in session.problems] == [(4, "bad_line")]


def test_a_later_line_without_an_id_makes_a_file_older_too() -> None:
    data = PIGLET_FILE + b'{"type":"user","ts":"2026-04-24T10:02:00Z","data":{"content":"x"}}\n'
    indexer, lines = indexed(data)
    assert indexer.upgrade is not None
    assert leaf_of(indexer.session) == PigletFile(data).leaf == "L0"
    assert json.loads(lines[-1])["parentId"] == "6a6b6c6d"
    assert indexer.upgrade.again(3, lines[3]) == lines[3]


def test_a_line_that_piglet_counts_but_cannot_be_an_entry_is_counted_too() -> None:
    first = b'{"type":"user","data":{"content":"a"}}\n'
    data = HEADER + b"\n" + first + b'{"data":{}}\n' + first
    indexer, _ = indexed(data)
    assert [one for one in indexer.session.names if one] == ["L0", "L2"]
    assert leaf_of(indexer.session) == PigletFile(data).leaf == "L2"


@pytest.mark.parametrize("name", ["piglet", "piglet-fork", "piglet-legacy"])
def test_every_beginning_of_a_file_is_read_as_piglet_reads_it(name: str) -> None:
    lines = (SAMPLES / "piglet" / f"{name}.jsonl").read_bytes().splitlines(keepends=True)
    for count in range(1, len(lines) + 1):
        data = b"".join(lines[:count])
        told = PigletFile(data)
        indexer, taken = indexed(data)
        assert leaf_of(indexer.session) == (told.leaf or None)
        assert context(indexer, taken) == told.messages()
        following = lines[count] if count < len(lines) else b""
        for end in range(1, len(following)):
            try:
                decoded(following[:end])
                is_read = True
            except (ValueError, TypeError):
                is_read = False
            assert indexer.parses(following[:end]) == is_read, end


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"user","id":"x1","ts":"yesterday","data":{"content":"a"}}',
        b'{"type":"user","id":"x1","ts":5,"data":{"content":"a"}}',
        b'{"type":"user","id":7,"data":{"content":"a"}}',
        b'{"type":"user","id":"x1","parentId":7,"data":{"content":"a"}}',
        b'{"type":7,"id":"x1","data":{"content":"a"}}',
        b'{"type":"meta","data":5}',
    ],
)
def test_a_line_that_piglet_skips_is_skipped_and_told(line: bytes) -> None:
    data = PIGLET_FILE + line + b"\n"
    assert PigletFile(data).skipped == 1
    indexer, _ = indexed(data)
    assert leaf_of(indexer.session) == "6a6b6c6d"
    assert [(one.line, one.kind) for one in indexer.session.problems] == [(20, "bad_line")]


@pytest.mark.parametrize(
    "data", [b"[]", b"null", b'[{"type":"label","data":{"targetId":"a"}}]', b'"text"']
)
def test_a_compaction_that_piglet_ignores_is_an_entry_without_an_effect(data: bytes) -> None:
    line = b'{"type":"compact","id":"x1","parentId":"4a4b4c4d","data":%b}\n' % data
    whole = PIGLET_FILE + line
    indexer, lines = indexed(whole)
    assert leaf_of(indexer.session) == "x1"
    assert len(context(indexer, lines)) == 4
    if data != b'"text"':
        assert context(indexer, lines) == PigletFile(whole).messages()


def test_a_branch_summary_with_a_text_is_not_in_the_context() -> None:
    data = PIGLET_FILE.split(b"\n")
    cut = b"\n".join(data[:11]) + b"\n"
    indexer, lines = indexed(cut)
    assert leaf_of(indexer.session) == "ddeeff00"
    assert context(indexer, lines) == PigletFile(cut).messages()
    assert len(context(indexer, lines)) == 4


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b'{"type":"meta"}',
        b'{"type":"meta","data":{}}',
        b'{"type":"meta","data":{"id":7}}',
        b'{"type":"user","id":"a","data":{"content":"x"}}',
    ],
)
def test_a_file_that_does_not_begin_with_a_session_is_none_of_piglets(line: bytes) -> None:
    with pytest.raises(BadHeader):
        PIGLET.decode_header(line)
    assert sniff(line) is None


# -- writing -------------------------------------------------------------------


def user(**data: Any) -> Raw:
    return Raw(json.dumps({"role": "user"} | data).encode())


PLACE: dict[str, Any] = {"id": "a1b2c3d4", "parent_id": "0a0b0c0d", "timestamp": TIME}
ROOT: dict[str, Any] = PLACE | {"parent_id": None}


def line_of(word: str, behind: str, *, parent: str = ',"parentId":"0a0b0c0d"') -> str:
    return f'{{"type":"{word}","id":"a1b2c3d4"{parent},"ts":"{TIME}","data":{behind}}}'


WITHIN = '[{"type":"user","ts":"0001-01-01T00:00:00Z","data":{"content":"sum"}}]'
WRITTEN: list[tuple[Entry | Opaque, str]] = [
    (
        Message(**PLACE, message=user(timestamp=TIME, content="a < b && c > d", zz=1)),
        line_of(
            "user",
            f'{{"content":"a \\u003c b \\u0026\\u0026 c \\u003e d","zz":1,"timestamp":"{TIME}"}}',
        ),
    ),
    (Message(**ROOT, message=user(content="hi")), line_of("user", '{"content":"hi"}', parent="")),
    (
        Compaction(**PLACE, messages=[user(content="sum")], tokens_before=7),
        line_of("compact", f'{WITHIN},"tokensBefore":7'),
    ),
    (
        Compaction(**PLACE, messages=[user(content="sum")], tokens_before=0),
        line_of("compact", WITHIN),
    ),
    (
        BranchSummary(**ROOT, summary="", from_id=None),
        line_of("branch_summary", '{"summary":"","fromId":""}', parent=""),
    ),
    (
        Label(**PLACE, target_id="0a0b0c0d", label=None),
        line_of("label", '{"targetId":"0a0b0c0d","label":""}'),
    ),
    (
        CustomMessage(**PLACE, custom_type="custom_message", content=Raw(b'"n"'), display=True),
        line_of("custom_message", '{"role":"user","content":"n"}'),
    ),
    (
        CustomMessage(
            **PLACE, custom_type="x", content=Raw(b'"n"'), display=False, role="assistant"
        ),
        line_of(
            "custom_message",
            '{"role":"assistant","content":"n","customType":"x","display":false}',
        ),
    ),
    (
        Custom(**PLACE, custom_type="ext:memory:facts", data=Raw(b'{"a":1.50}')),
        line_of("ext:memory:facts", '{"a":1.50}'),
    ),
    (Custom(**PLACE, custom_type="ext:memory:facts"), line_of("ext:memory:facts", "null")),
    (
        ModelChange(**PLACE, model_id="m", provider="p"),
        line_of("sessiond.model_change", '{"modelId":"m","provider":"p"}'),
    ),
    (
        ThinkingLevelChange(**PLACE, thinking_level="high"),
        line_of("sessiond.thinking_level_change", '{"thinkingLevel":"high"}'),
    ),
    (
        Opaque(**PLACE, type="zz", fields={"a": Raw(b"1.50"), "b": Raw(b"[]")}),
        line_of("sessiond.entry.zz", '{"a":1.50,"b":[]}'),
    ),
    (
        SessionInfoEntry(**PLACE, name="T & T", model="m"),
        f'{{"type":"meta","ts":"{TIME}",'
        + HEADER.decode()[HEADER.index(b'"data"') :].replace(
            '"createdAt"', '"model":"m","createdAt"'
        )[:-2]
        + ',"title":"T \\u0026 T"},"entryId":"a1b2c3d4"}',
    ),
]


@pytest.mark.parametrize(("entry", "line"), WRITTEN, ids=lambda one: type(one).__name__)
def test_an_entry_is_written_as_piglet_writes_it(entry: Entry | Opaque, line: str) -> None:
    dialect = recognise(HEADER)[0]
    assert dialect.encode(entry).decode() == line
    row = dialect.row_of(entry)
    assert row == dialect.row(line.encode())
    assert row.id == "a1b2c3d4"
    wire = msgspec.json.decode(dialect.wire(line.encode()))
    word = entry.type if isinstance(entry, Opaque) else type(entry).__struct_config__.tag
    assert wire["type"] == word


GOOD_CALL = {"id": "c", "name": "read", "arguments": {"path": "a"}}
REFUSED: list[tuple[Entry | Opaque, str]] = [
    (Message(**PLACE, message=user(content=[{"type": "text", "text": "hi"}])), "message.content"),
    (Message(**PLACE, message=user(content="a", timestamp=1768473000000)), "message.timestamp"),
    (Message(**PLACE, message=user(content="a", timestamp="today")), "message.timestamp"),
    (Message(**PLACE, message=user(blocks=[{"text": 5}])), "message.blocks[0].text"),
    (Message(**PLACE, message=user(blocks=[GOOD_CALL])), "message.blocks[0]"),
    (
        Message(**PLACE, message=user(blocks=[{"data": "%%", "mimeType": "image/png"}])),
        "message.blocks[0].data",
    ),
    (Message(**PLACE, message=Raw(b'{"role":"system","content":"x"}')), "message.role"),
    (Message(**PLACE, message=Raw(b'{"role":"assistant","content":"x"}')), "message.content"),
    (
        Message(**PLACE, message=Raw(b'{"role":"assistant","content":[{"type":"toolResult"}]}')),
        "message.content[0]",
    ),
    (Message(**PLACE, message=Raw(b'{"role":"toolResult","content":[]}')), "message"),
    (Message(**PLACE, message=user(content="a"), turn_status="done"), "turn_status"),
    (Compaction(**PLACE, messages=[]), "messages"),
    (Compaction(**PLACE, messages=[user(content=5)]), "messages[0].content"),
    (Compaction(**PLACE, summary="s", first_kept_entry_id=None), "summary"),
    (
        CustomMessage(**PLACE, custom_type="x", content=Raw(b"[]"), display=True),
        "content",
    ),
    (Custom(**PLACE, custom_type="meta"), "custom_type"),
    (Custom(**PLACE, custom_type="user"), "custom_type"),
    (Opaque(**PLACE, type="message", fields={}), "type"),
    (Custom(**PLACE, custom_type="sessiond.entry.zz"), "custom_type"),
    (SessionInfoEntry(**PLACE, tags=["a"]), "tags"),
    (SessionInfoEntry(**PLACE, metadata=Raw(b'{"id":"x"}')), "metadata"),
    (SessionInfoEntry(**PLACE, metadata=Raw(b'{"forkPoint":"x"}')), "metadata"),
    (Message(**PLACE, head="side", message=user(content="a")), "head"),
]


@pytest.mark.parametrize(("entry", "path"), REFUSED)
def test_an_entry_that_piglet_could_not_read_is_refused_by_its_field(
    entry: Entry | Opaque, path: str
) -> None:
    with pytest.raises(EntryInvalid) as refused:
        recognise(HEADER)[0].row_of(entry)
    assert refused.value.data()["path"] == path


def test_a_line_that_would_keep_piglet_from_opening_the_file_is_refused() -> None:
    with pytest.raises(EntryInvalid, match="10485760 bytes"):
        recognise(HEADER)[0].row_of(Message(**PLACE, message=user(content="x" * 10 * 1024 * 1024)))


def test_blocks_are_told_apart_by_their_members_as_piglet_does() -> None:
    blocks = [
        {"thinking": "hm", "text": ""},
        {"thinking": "", "text": "said"},
        {"id": "c1", "name": "", "text": ""},
        {"data": "AA==", "mimeType": "image/png"},
        {"type": "text", "text": "tagged"},
    ]
    found = PIGLET.read(json.dumps({"role": "assistant", "content": blocks}).encode())
    assert found is not None
    kinds = [block.kind for block in found.blocks]
    assert kinds == ["thinking", "text", "tool_call", "image", "text"]
    asked = PIGLET.read(b'{"role":"user","content":"a","blocks":[{"data":"AA==","mimeType":"b"}]}')
    assert asked is not None
    assert [block.kind for block in asked.blocks] == ["text", "image"]


def test_messages_of_other_dialects_are_composed_so_that_piglet_reads_them() -> None:
    call = Block("tool_call", id="c", name="read", arguments=Raw(b'{"a":1}'))
    image = Block("image", data="AA==", mime_type="image/png")
    said = [
        ParsedMessage("user", (Block("text", text="a"), Block("text", text="b"), image)),
        ParsedMessage(
            "assistant",
            (Block("thinking", text="hm", signature="s"), Block("text", text="ok"), call),
            model_id="m",
            provider="p",
            usage=Usage(1, 2, 3, 4, 10, 0.5),
            stop_reason="tool_calls",
        ),
        ParsedMessage(
            "tool",
            (
                Block("tool_result", text="r", id="c", name="read", is_error=True),
                Block("tool_result", id="d", name="see", parts=(image,)),
            ),
        ),
        ParsedMessage("system", (Block("text", text="be kind"),)),
    ]
    composed = [PIGLET.compose(one, TIME) for one in said]
    assert [len(messages) for messages in composed] == [1, 1, 2, 0]
    for messages in composed:
        for message in messages:
            PIGLET.row_of(Message(**PLACE, message=message))
    (asked,), (answered,), results, _ = composed
    assert json.loads(bytes(asked))["content"] == "a\nb"
    reading = PIGLET.read(answered)
    assert reading is not None
    assert (reading.usage, reading.stop_reason) == (Usage(1, 2, 3, 4, 10, 0.5), "toolUse")
    assert json.loads(bytes(results[0]))["isError"] is True
    assert json.loads(bytes(results[1]))["content"] == [{"data": "AA==", "mimeType": "image/png"}]


# -- copies --------------------------------------------------------------------


def test_a_copied_entry_gets_new_references_and_keeps_its_payload() -> None:
    ids = {"88aa77bb": "new0", "4a5b6c7d": "new1", "99aabbcc": "new2"}
    lines = PIGLET_FILE.split(b"\n")
    label = json.loads(PIGLET.placed(lines[6], CopyPlace("new0", ids=ids)))
    assert (label["id"], label["parentId"], label["data"]["targetId"]) == ("new0", "new1", "new1")
    summary = json.loads(PIGLET.placed(lines[10], CopyPlace("s", None, ids=ids)))
    assert "parentId" not in summary
    assert summary["data"]["fromId"] == "new2"
    assert list(json.loads(PIGLET.placed(lines[2], CopyPlace("a1b2c3d4", "up")))) == [
        *("type", "id", "parentId", "ts", "data")
    ]
    assert PIGLET.placed(lines[3], CopyPlace("e5f6a7b8")) == lines[3]
    cut = json.loads(PIGLET.placed(lines[13], CopyPlace("c", messages=1)))
    assert len(cut["data"]) == 1


def test_each_meta_line_of_a_copy_states_the_id_of_the_copy() -> None:
    lines = (SAMPLES / "piglet" / "piglet-fork.jsonl").read_bytes().split(b"\n")
    first = PIGLET.copied_header(lines[0], "copy-of-it", "/elsewhere")
    again = json.loads(PIGLET.restated(lines[1], PIGLET.decode_header(first)))
    assert (again["data"]["id"], again["data"]["cwd"]) == ("copy-of-it", "/elsewhere")
    assert again["data"]["parentId"] == "7c2f1a90-3b5e-4f0d-9a41-5be0c6d2e811"
    assert PIGLET.restated(lines[2], PIGLET.decode_header(first)) == lines[2]


def test_a_line_cannot_bring_members_of_native_entries() -> None:
    line = b'{"type":"user","id":"x","head":"side","atom":[1,2],"data":{"role":"no","content":"a"}}'
    row = PIGLET.row(line)
    assert (row.head, row.atom) == ("main", None)
    assert json.loads(PIGLET.wire(line))["message"] == {"role": "user", "content": "a"}
    with pytest.raises(BadLine):
        PIGLET.row(b'{"type":"user","id":"","data":{"content":"a"}}')


# -- columns of usual lines ------------------------------------------------------


A_LINE = {"type": "user", "id": "a1b2c3d4", "ts": "2026-04-24T10:00:02Z", "data": {}}


USAGE = {
    "inputTokens": 1,
    "outputTokens": 0,
    "cacheReadTokens": 3,
    "cacheWriteTokens": 4,
    "cost": 0.5,
}
ANSWER = {"content": [], "model": "m", "provider": "", "usage": USAGE}
USUAL = [
    A_LINE,
    A_LINE | {"parentId": "0a0b0c0d", "zz": {"b": [1]}},
    A_LINE | {"parentId": ""},
    A_LINE | {"type": "tool_result"},
    A_LINE | {"type": "assistant", "data": ANSWER},
    A_LINE | {"type": "assistant", "data": ANSWER | {"usage": {"input": 5, "totalTokens": 9}}},
    A_LINE | {"type": "assistant", "data": {"model": ""}},
    A_LINE | {"ts": "2026-04-24T23:59:59.104233817-04:00"},
    A_LINE | {"ts": "2026-01-01T00:00:00.1+14:00"},
    A_LINE | {"ts": "0001-01-01T00:00:00Z"},
    A_LINE | {"data": {"role": "no", "content": "\u00e9 \U0001f600"}},
]
UNUSUAL = [
    A_LINE | {"type": "label"},
    A_LINE | {"type": "meta"},
    A_LINE | {"id": ""},
    A_LINE | {"id": 7},
    A_LINE | {"ts": "2026-04-24T10:00:02+05:30"},
    A_LINE | {"ts": "2026-13-24T10:00:02Z"},
    A_LINE | {"ts": "2026-04-24T23:59:60Z"},
    A_LINE | {"ts": None},
    A_LINE | {"data": []},
    A_LINE | {"type": "assistant", "data": {"model": 5}},
]


@pytest.mark.parametrize("members", USUAL)
def test_the_columns_say_what_the_row_says(members: dict[str, Any]) -> None:
    line = json.dumps(members, ensure_ascii=False).encode()
    found = PIGLET.message_lines([line, b"{}"])
    assert len(found.ids) == 1
    assert found.row(0) == PIGLET.row(line)


@pytest.mark.parametrize("members", UNUSUAL)
def test_the_columns_end_at_a_line_that_needs_a_closer_look(members: dict[str, Any]) -> None:
    usual = json.dumps(USUAL[0]).encode()
    lines = [usual, json.dumps(members).encode(), usual]
    assert PIGLET.message_lines(lines).ids == ["a1b2c3d4"]


def test_ids_are_counted_alike_line_by_line_and_in_one_piece() -> None:
    named = b'{"type":"user","id":"n%d","ts":"2026-04-24T10:00:02Z","data":{"content":"a"}}\n'
    torn = named[: named.index(b'"data"')] % 3 + b"\n"
    unnamed = b'{"type":"user","ts":"2026-04-24T10:00:02Z","data":{"content":"b"}}\n'
    data = HEADER + b"\n" + named % 1 + named % 2 + torn + unnamed + named % 4 + unnamed
    one_by_one, lines = indexed(data)
    at_once = Indexer(Path("a.jsonl"), in_place=True)
    at_once.visit_lines(0, data.splitlines(keepends=True))
    for indexer in (one_by_one, at_once):
        assert [name for name in indexer.session.names if name] == ["n1", "n2", "L0", "n4", "L1"]
        assert leaf_of(indexer.session) == PigletFile(data).leaf == "L1"
    assert json.loads(lines[4])["parentId"] == "n2"
    assert at_once.upgrade is not None
    assert at_once.upgrade.again(4, lines[4]) == lines[4]
    assert list(at_once.session.parents) == list(one_by_one.session.parents)
