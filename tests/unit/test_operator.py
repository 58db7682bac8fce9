"""The operator dialect: real files, its header beside native ones, what it writes and refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from sessiond.dialects import recognise, sniff
from sessiond.dialects.base import BadHeader, BadLine, CopyPlace, current_lines
from sessiond.dialects.native.dialect import NATIVE
from sessiond.dialects.operator.dialect import OPERATOR
from sessiond.errors import EntryInvalid
from sessiond.model.entries import ENTRY_TYPES, Entry, Header, Message, Opaque
from sessiond.model.parsed_message import Block, ParsedMessage
from sessiond.model.row import Kind
from sessiond.model.usage import Usage
from sessiond.testing.dialects import check_dialect
from tests.kit.lines import SAMPLES, context_at, folded, leaf_of, parsed, sample
from tests.kit.readers.operator import OperatorReader

HEADER = b'{"type":"session","version":3,"id":"abcdefgh","timestamp":1784000000.25,"cwd":"/x"}'
TIME = "2026-07-14T03:33:20.250Z"
BASE: dict[str, Any] = {"id": "b1", "parent_id": "a1", "timestamp": TIME}
TEXT = {"type": "text", "content": "hi"}
SAID = {"contents": [TEXT], "id": "m1", "timestamp": 1784000000.25, "role": "user"}


# -- samples -----------------------------------------------------------------


@pytest.mark.parametrize(
    "path", sorted((SAMPLES / "operator").glob("*.jsonl")), ids=lambda p: p.name
)
def test_a_real_file_shows_every_promise_kept(path: Path) -> None:
    data = b"".join(line + b"\n" for line in sample(OPERATOR, path.stem))
    check_dialect(OPERATOR, data)


def test_the_sample_of_every_type_reads_as_its_writer_meant() -> None:
    lines = sample(OPERATOR, "operator")[1:]
    session = folded(OPERATOR, lines)
    assert (leaf_of(session), session.problems) == ("aa000013", [])
    found = context_at(OPERATOR, lines)
    names = ["04", "05", "06", "07", "0f", "11", "12", "13"]
    assert [source for source, _ in found] == [f"aa0000{name}" for name in names]
    assert [message["role"] for _, message in found[4:6]] == ["branch_summary", "custom"]
    at_the_split = context_at(OPERATOR, lines, "aa00000d")
    assert [source[-2:] for source, _ in at_the_split] == ["0b", "09", "0a", "0c", "0d"]
    assert at_the_split[0][1] == {
        "contents": [{"type": "text", "content": "Release planning so far"}],
        "id": "aa00000b",
        "timestamp": 1784000020.25,
        "role": "compaction_summary",
        "tokens_before": 90000,
    }
    assert session.labels == {}
    assert session.facts == {"title": "Release planning"}
    channel = json.loads(OPERATOR.wire(lines[2]))
    assert channel["name"] == "telegram"
    assert json.loads(OPERATOR.wire(lines[3]))["meta"]["reactions"] == ["👍"]
    # One message holds the results of the whole batch.
    results = OPERATOR.reading(lines[5])
    assert results is not None
    assert [(block.id, block.text) for block in results.blocks] == [("t1", "v1"), ("t2", "1.0")]


def test_the_documented_spelling_is_read() -> None:
    lines = sample(OPERATOR, "operator-doc-spelling")
    session = folded(OPERATOR, lines[1:])
    assert (leaf_of(session), session.problems) == ("a2", [])
    assert [source for source, _ in context_at(OPERATOR, lines[1:])] == ["a1", "a2"]
    assert OPERATOR.timestamp(lines[1]) == "2026-07-14T03:33:21.250Z"


# -- header ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (HEADER, "operator"),
        (HEADER.replace(b"1784000000.25", b"1784000000"), "operator"),
        (HEADER.replace(b"1784000000.25", b'"2026-01-15T10:30:00.000Z"'), "pi"),
        (HEADER.replace(b"session", b"session_header"), "operator"),
        (HEADER.replace(b"session", b"session_header").replace(b'"version":3,', b""), "operator"),
        # Times of Python's datetime.isoformat, as the first generation has them.
        (
            b'{"type":"session_header","version":1,"id":"abcdefgh","timestamp":"2026-01-15T10:30:00.123456"}',
            "operator",
        ),
        (
            b'{"type":"session_header","version":1,"id":"abcdefgh","timestamp":"2026-01-15T10:30:00+00:00"}',
            "operator",
        ),
        (
            b'{"type":"session_header","version":1,"id":"abcdefgh","parent_session_path":null}',
            "operator",
        ),
        (
            b'{"type":"metadata","id":"abcdefgh","created_at":"2026-01-15T10:30:00","metadata":{}}',
            "operator",
        ),
        (b'{"type":"metadata","id":"abcdefgh"}', None),
        (
            b'{"type":"session_header","version":1,"id":"abcdefgh","timestamp":"2026-01-15T10:30:00.000Z"}',
            "native",
        ),
        (b'{"type":"session_header","version":1,"id":"abcdefgh","timestamp":""}', "native"),
        (b'{"type":"session_header","id":"abcdefgh"}', "native"),
        # A member that only sessiond writes, beside a time that sessiond does not write.
        (
            b'{"type":"session_header","version":1,"id":"abcdefgh","timestamp":1784000000.25,"lineage":{}}',
            "native",
        ),
        (HEADER.replace(b'"version":3', b'"version":4'), None),
        (HEADER.replace(b'"abcdefgh"', b'""'), None),
    ],
)
def test_headers_are_told_apart(line: bytes, name: str | None) -> None:
    assert getattr(sniff(line), "name", None) == name


TIMES = st.sampled_from(
    ["", TIME, "2026-01-15T10:30:00Z", 1784000000.25, "2026-01-15T10:30:00", None]
)
EXTRA = {
    "lineage": st.just({"parent_id": "abcdefgh"}),
    "title": st.text(max_size=3),
    "tags": st.lists(st.text(max_size=3), max_size=2),
    "metadata": st.just({"a": 1}),
    "persist": st.just("on_assistant"),
    "parent_session": st.just("/a.jsonl"),
}


@given(st.fixed_dictionaries({}, optional=EXTRA), st.sampled_from([1784000000.25, TIME, ""]))
def test_a_header_that_sessiond_writes_is_native(extra: dict[str, Any], time: Any) -> None:
    members: Any = {
        n: Raw(json.dumps(v).encode()) if n in {"lineage", "metadata"} else v
        for n, v in extra.items()
    }
    line = NATIVE.encode_header(Header(id="abcdefgh", timestamp=time, cwd="/x", **members))
    assert sniff(line) is NATIVE
    assert sniff(NATIVE.copied_header(line, "session-b", None)) is NATIVE


@given(TIMES, st.sampled_from([UNSET, None, 1, 3]), st.fixed_dictionaries({}, optional=EXTRA))
def test_a_copy_has_the_dialect_of_its_original(time: Any, version: Any, extra: Any) -> None:
    members = {"type": "session_header", "id": "abcdefgh", "timestamp": time, **extra}
    if version is not UNSET:
        members["version"] = version
    line = json.dumps(members).encode()
    try:
        dialect, _ = recognise(line)
    except BadHeader:
        return
    again, _ = recognise(
        dialect.copied_header(next(current_lines(dialect, [line])), "session-b", "/y")
    )
    assert again.name == dialect.name


def test_files_of_earlier_versions_of_sessiond_keep_their_dialect() -> None:
    found = {
        path.name: getattr(sniff(path.read_bytes().split(b"\n")[0]), "name", None)
        for path in (SAMPLES / "upgrade").rglob("*.jsonl")
    }
    assert len(found) == 3
    assert set(found.values()) == {"native", "pi"}
    for path in (SAMPLES / "native").glob("*.jsonl"):
        assert sniff(path.read_bytes().split(b"\n")[0]) is NATIVE


def test_a_header_is_written_as_operator_writes_it() -> None:
    header = Header(id="abcdefgh", timestamp=TIME, cwd="/x", title="not in Operator's header")
    assert OPERATOR.encode_header(header) == HEADER
    linked = msgspec.structs.replace(header, parent_session="/a.jsonl")
    assert OPERATOR.encode_header(linked) == HEADER[:-1] + b',"parent_session":"/a.jsonl"}'


# -- writing -----------------------------------------------------------------


def entry(word: str, **members: Any) -> Entry | Opaque:
    kind = ENTRY_TYPES.get(word)
    if kind is None:
        fields = {name: Raw(json.dumps(value).encode()) for name, value in members.items()}
        return Opaque(type=word, **BASE, fields=fields)
    return msgspec.json.decode(json.dumps({"type": word, **BASE, **members}), type=kind)


START = '{"id":"b1","timestamp":1784000000.25,"parent_id":"a1","type":'
WRITTEN: list[tuple[str, dict[str, Any], str]] = [
    ("message", {"message": SAID}, '"message":' + json.dumps(SAID)),
    (
        "compaction",
        {"summary": "S", "first_kept_entry_id": "a1", "tokens_before": 9},
        '"summary":"S","first_kept_entry_id":"a1","tokens_before":9,"from_hook":false',
    ),
    (
        "compaction",
        {"summary": "S", "first_kept_entry_id": None, "details": {"read_files": []}},
        '"summary":"S","first_kept_entry_id":"b1","tokens_before":0,"details":{"read_files": []},"from_hook":false',
    ),
    (
        "branch_summary",
        {"summary": "S", "from_id": "z9"},
        '"from_id":"a1","summary":"S","from_hook":false',
    ),
    ("leaf", {"target_id": "a1", "reason": "rewind"}, '"target_id":"a1"'),
    ("leaf", {"target_id": None}, ""),
    ("label", {"target_id": "a1", "label": "x"}, '"label":"x","target_id":"a1"'),
    ("label", {"target_id": "a1", "label": ""}, '"target_id":"a1"'),
    ("thinking_level_change", {"thinking_level": "none"}, '"thinking_level":"off"'),
    ("model_change", {"model_id": "m", "provider": "p"}, '"model_id":"m","provider_id":"p"'),
    ("session_info", {"name": "N"}, '"name":"N"'),
    ("session_info", {"name": None}, ""),
    ("custom", {"custom_type": "t", "data": {"a": 1.5}}, '"custom_type":"t","data":{"a": 1.5}'),
    (
        "custom_message",
        {"custom_type": "t", "content": "hi", "display": True, "role": "user"},
        '"custom_type":"t","content":[{"type":"text","content":"hi"}],"display":true',
    ),
    ("channel", {"name": "telegram", "chat_id": "42"}, '"name":"telegram","chat_id":"42"'),
]


@pytest.mark.parametrize(("word", "members", "own"), WRITTEN)
def test_an_entry_is_written_as_operator_writes_it(word: str, members: Any, own: str) -> None:
    written = entry(word, **members)
    row = OPERATOR.row_of(written)
    line = OPERATOR.encode(written)
    assert line.decode() == f'{START}"{word}"' + (f",{own}" if own else "") + "}"
    assert OPERATOR.row(line) == row
    again = json.loads(OPERATOR.wire(line))
    assert (again["type"], again["timestamp"]) == (word, TIME)
    for name, value in members.items():
        # What Operator spells otherwise or does not keep.
        if name not in {"reason", "role", "from_id", "content", "thinking_level", "label"}:
            assert again[name] == value


def test_an_entry_of_another_type_is_kept_where_operator_reads_it() -> None:
    written = entry("reaction", emoji="x", target_id="a1")
    row = OPERATOR.row_of(written)
    line = OPERATOR.encode(written)
    assert json.loads(line) == {
        "id": "b1",
        "timestamp": 1784000000.25,
        "parent_id": "a1",
        "type": "custom",
        "custom_type": "sessiond.entry.reaction",
        "data": {"emoji": "x", "target_id": "a1"},
    }
    assert (OPERATOR.row(line), row.kind) == (row, Kind.OPAQUE)
    assert json.loads(OPERATOR.wire(line)) == {
        "type": "reaction",
        **BASE,
        "emoji": "x",
        "target_id": "a1",
    }


@pytest.mark.parametrize("word", ["message", "session", "leaf", ""])
def test_a_custom_entry_holds_no_entry_that_means_something(word: str) -> None:
    line = b'{"id":"b1","type":"custom","custom_type":"sessiond.entry.%s","data":{"message":{"role":"user"}}}'
    assert OPERATOR.row(line % word.encode()).kind == Kind.CUSTOM


def test_a_summary_of_a_root_names_the_root() -> None:
    written = entry("branch_summary", summary="S", from_id=None)
    written.parent_id = None
    line = OPERATOR.encode(written)
    assert b'"from_id":"root"' in line
    assert b"parent_id" not in line
    assert json.loads(OPERATOR.wire(line))["from_id"] is None


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("message", {"message": {"role": "user", "content": "hi"}}, "message.contents"),
    ("message", {"message": SAID | {"role": "toolResult"}}, "message.role"),
    ("message", {"message": SAID | {"contents": "hi"}}, "message.contents"),
    ("message", {"message": SAID | {"contents": ["hi"]}}, "message.contents[0]"),
    (
        "message",
        {"message": SAID | {"contents": [TEXT, {"type": "text", "text": "hi"}]}},
        "message.contents[1].content",
    ),
    (
        "message",
        {"message": SAID | {"contents": [{"type": "toolCall"}]}},
        "message.contents[0].type",
    ),
    (
        "message",
        {"message": SAID | {"contents": [{"type": "tool_call", "id": "t", "name": "n"}]}},
        "message.contents[0].args",
    ),
    (
        "message",
        {"message": SAID | {"contents": [{"type": "tool_result", "id": 1}]}},
        "message.contents[0].id",
    ),
    ("message", {"message": SAID | {"id": None}}, "message.id"),
    ("message", {"message": SAID | {"timestamp": TIME}}, "message.timestamp"),
    ("message", {"message": SAID, "turn_status": "done"}, "turn_status"),
    ("message", {"message": SAID, "head": "side"}, "head"),
    ("message", {"message": SAID, "timestamp": "9000-01-01T00:00:00.001Z"}, "timestamp"),
    ("compaction", {"messages": [SAID]}, "messages"),
    ("compaction", {"summary": "S", "tokens_after": 1}, "tokens_after"),
    ("thinking_level_change", {"thinking_level": "lots"}, "thinking_level"),
    ("model_change", {"model_id": "m"}, "provider"),
    ("session_info", {}, "name"),
    ("session_info", {"name": "x", "tags": ["a"]}, "tags"),
    (
        "custom_message",
        {"custom_type": "t", "content": "x", "display": True, "role": "assistant"},
        "role",
    ),
    (
        "custom_message",
        {"custom_type": "t", "content": [{"type": "text", "text": "x"}], "display": True},
        "content[0].content",
    ),
    ("leaf", {"target_id": "a1", "reason": "drop"}, "reason"),
    ("channel", {"chat_id": "42"}, "name"),
]


@pytest.mark.parametrize(("word", "members", "path"), REFUSED)
def test_what_operator_could_not_read_is_refused(word: str, members: Any, path: str) -> None:
    with pytest.raises(EntryInvalid) as refusal:
        OPERATOR.row_of(entry(word, **members))
    assert refusal.value.data()["path"] == path


# -- reading -----------------------------------------------------------------


def test_members_that_mean_something_only_in_a_native_file_mean_nothing() -> None:
    line = json.dumps(
        {
            "id": "b1",
            "type": "leaf",
            "target_id": "a1",
            "reason": "drop",
            "head": "x",
            "atom": [1, 2],
        }
    ).encode()
    row = OPERATOR.row(line)
    assert (row.head, row.atom) == ("main", None)
    assert row.effect == OPERATOR.row(line.replace(b"drop", b"move")).effect
    compaction = (
        b'{"id":"b1","type":"compaction","summary":"S","first_kept_entry_id":"a1","messages":[]}'
    )
    assert (
        OPERATOR.row(compaction).effect
        == OPERATOR.row(compaction.replace(b"messages", b"z")).effect
    )
    facts = b'{"id":"b1","type":"session_info","name":" N ","tags":["a"],"model":"m"}'
    assert getattr(OPERATOR.row(facts).effect, "facts", None) == {"title": "N"}


@pytest.mark.parametrize("name", ['"name":" ",', '"name":null,', ""])
def test_the_last_name_counts_and_a_blank_one_clears_it(name: str) -> None:
    lines = [
        b'{"id":"a1","type":"session_info","name":"N"}',
        b'{"id":"a2","parent_id":"a1",%b"type":"session_info"}' % name.encode(),
    ]
    assert folded(OPERATOR, lines).facts == {"title": None}
    assert json.loads(OPERATOR.wire(lines[1]))["name"] is None


def test_labels_and_names_are_nodes_and_a_leaf_is_a_record() -> None:
    kinds = {kind: OPERATOR.rules.records.__contains__(kind) for kind in Kind}
    assert [kind for kind, is_record in kinds.items() if is_record] == [Kind.LEAF]


def test_a_reset_survives_a_restart() -> None:
    """D7: Operator's own reset is lost; a leaf without a target is what its format has for it."""
    lines = [
        b'{"id":"a1","type":"message","message":{"contents":[],"role":"user"}}',
        b'{"id":"a2","parent_id":"a1","type":"leaf"}',
    ]
    assert leaf_of(folded(OPERATOR, lines)) is None


@pytest.mark.parametrize("name", ["operator", "operator-doc-spelling"])
def test_no_line_that_is_cut_is_an_entry_or_a_header(name: str) -> None:
    header, *lines = sample(OPERATOR, name)
    for cut in range(len(header)):
        assert sniff(header[:cut]) is None
    for line in lines:
        for cut in range(len(line)):
            with pytest.raises(BadLine):
                OPERATOR.row(line[:cut])


# -- messages of other dialects ------------------------------------------------


def test_images_of_one_block_are_images() -> None:
    given = ["data:image/png;base64,AAAA", "https://x/a.png", "BBBB", {"url": "https://x/b.png"}]
    blocks = parsed(
        OPERATOR, SAID | {"contents": [{"type": "image", "images": given}, TEXT]}
    ).blocks
    found = [(one.kind, one.mime_type, one.data, one.url) for one in blocks]
    assert found == [
        ("image", "image/png", "AAAA", ""),
        ("image", "", "", "https://x/a.png"),
        ("image", "", "BBBB", ""),
        ("image", "", "", "https://x/b.png"),
        ("text", "", "", ""),
    ]


TEXTS = st.text(max_size=5)
SAYING = st.one_of(
    st.builds(lambda words: Block("text", text=words), TEXTS),
    st.builds(lambda words, sign: Block("thinking", text=words, signature=sign), TEXTS, TEXTS),
    st.builds(lambda data: Block("image", data=data, mime_type="image/png"), st.just("AAAA")),
    st.builds(lambda url: Block("image", url=url), st.just("https://x/a.png")),
)
CALLS = st.builds(
    lambda name, call_id: Block("tool_call", id=call_id, name=name, arguments=Raw(b'{"a":1.50}')),
    TEXTS,
    TEXTS,
)
RESULTS = st.builds(
    lambda words, call_id, failed: Block(
        "tool_result",
        text=words,
        id=call_id,
        is_error=failed,
        parts=(Block("text", text=words),),
    ),
    TEXTS,
    TEXTS,
    st.booleans(),
)


@given(
    st.sampled_from(["user", "assistant", "system", "custom"]),
    st.lists(SAYING | CALLS, max_size=3) | st.lists(RESULTS, min_size=1, max_size=3),
    st.sampled_from(["", "stop", "toolUse", "aborted", "error", "strange"]),
)
def test_a_composed_message_says_the_same_and_may_be_stored(
    role: str, blocks: list[Block], reason: str
) -> None:
    message = ParsedMessage(
        role, tuple(blocks), usage=Usage(1, 2, 3, 4, 10, 0.5), stop_reason=reason
    )
    (made,) = OPERATOR.compose(message, TIME)
    assert OPERATOR.compose(message, TIME) == [made]
    OPERATOR.check(Message(message=made))
    again = OPERATOR.read(bytes(made))
    assert again is not None
    # The spelling and the sizes are those of the writer.
    said = ("kind", "text", "id", "is_error", "arguments", "signature", "data", "url")
    for name in said:
        assert [getattr(one, name) for one in again.blocks] == [
            getattr(one, name) for one in message.blocks
        ]
    assert again.role == ("tool" if message.is_result else role)
    if again.role == "assistant":
        assert again.usage == message.usage
    line = OPERATOR.encode(Message(id="b1", timestamp=TIME, message=made))
    assert OperatorReader(HEADER + b"\n" + line).leaf_id == "b1"


def test_a_block_that_operator_does_not_read_becomes_text() -> None:
    raw = Raw(b'{"type":"video","data":"x"}')
    strange = ParsedMessage("user", (Block("other", spelling="video", raw=raw),))
    (made,) = OPERATOR.compose(strange, TIME)
    assert parsed(OPERATOR, json.loads(bytes(made))).text == bytes(raw).decode()
    result = Block("tool_result", id="t", parts=(Block("image", url="https://x/a.png"),))
    (made,) = OPERATOR.compose(ParsedMessage("toolResult", (result,)), TIME)
    assert [one["type"] for one in json.loads(bytes(made))["contents"]] == ["tool_result", "image"]
    assert OPERATOR.compose(ParsedMessage("bashExecution", ()), TIME) == []


# -- copies ------------------------------------------------------------------


def test_a_copied_entry_keeps_operators_order_of_members() -> None:
    line = b'{"id":"a2","timestamp":1.5,"parent_id":"a1","type":"leaf","target_id":"a1"}'
    place = CopyPlace("c2", "c1", ids={"a1": "c1"})
    assert OPERATOR.placed(line, place) == line.replace(b'"a', b'"c')
    assert OPERATOR.placed(line, CopyPlace("a2", None)) == line.replace(b'"parent_id":"a1",', b"")
    root = b'{"id":"a2","timestamp":1.5,"type":"label","target_id":"a1"}'
    below = root.replace(b'"type"', b'"parent_id":"z1","type"')
    assert OPERATOR.placed(root, CopyPlace("a2", "z1")) == below
    assert OPERATOR.placed(root, CopyPlace("a2", None)) is root
    compaction = b'{"id":"a2","timestamp":1.5,"type":"compaction","first_kept_entry_id":"a1"}'
    assert b'"first_kept_entry_id":"a2"' in OPERATOR.placed(
        compaction, CopyPlace("a2", first_kept_id=None)
    )
