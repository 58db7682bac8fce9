"""The native dialect: what is read, what is refused, and that payloads pass as bytes."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from sessiond.dialects import DIALECTS, payload, sniff
from sessiond.dialects.base import BadHeader, BadLine, ContextLine
from sessiond.dialects.lenient_json import fields, items, join, text, with_field
from sessiond.dialects.native import NATIVE, Native
from sessiond.errors import EntryInvalid
from sessiond.model.entries import (
    ENTRY_TYPES,
    BranchSummary,
    Compaction,
    Custom,
    CustomMessage,
    Entry,
    Header,
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
    CompactionEffect,
    Effect,
    InfoEffect,
    Kind,
    LabelEffect,
    LeafEffect,
    Row,
)
from sessiond.model.times import rfc3339, unix_ms
from sessiond.model.usage import Usage
from sessiond.session.context.context import plan_context
from sessiond.session.index import Session
from sessiond.testing.dialects import check_dialect, entry_of, lines_of

SAMPLES = Path(__file__).resolve().parents[1] / "samples"
HEADER = b'{"type":"session_header","version":1,"id":"abcdefgh","timestamp":"","cwd":"/x"}'
# Any value that JSON can hold, spelled the way Python spells it.
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


def line_of(**members: Any) -> bytes:
    return json.dumps({"id": "e1", **members}, separators=(",", ":")).encode()


def context_of(*lines: bytes) -> list[dict[str, Any]]:
    rows = [NATIVE.row(line) for line in lines]
    given_lines = [
        ContextLine(row.id, row.kind, line) for row, line in zip(rows, lines, strict=True)
    ]
    return [json.loads(message.body) for message in NATIVE.context(given_lines)]


# -- samples -----------------------------------------------------------------


@pytest.mark.parametrize("path", sorted((SAMPLES / "native").glob("*.jsonl")), ids=lambda p: p.name)
def test_a_real_file_shows_every_promise_kept(path: Path) -> None:
    check_dialect(NATIVE, path.read_bytes())


def test_every_dialect_has_real_files() -> None:
    for dialect in DIALECTS:
        assert list((SAMPLES / dialect.name).glob("*.jsonl")), f"no samples of {dialect.name}"


def test_the_sample_has_an_entry_of_every_type_and_each_is_read_as_we_write_it() -> None:
    lines = lines_of(NATIVE, (SAMPLES / "native" / "every-type.jsonl").read_bytes())[1:]
    entries = [entry_of(NATIVE, line) for line in lines]
    assert None not in entries
    assert {type(entry) for entry in entries} == {*ENTRY_TYPES.values(), Opaque}
    assert [NATIVE.encode(entry) for entry in entries if entry is not None] == lines


def test_the_spelling_that_operator_documents_is_read() -> None:
    lines = lines_of(NATIVE, (SAMPLES / "native" / "operator-doc-spelling.jsonl").read_bytes())
    header = NATIVE.decode_header(lines[0])
    assert (header.version, header.timestamp) == (1, "2026-07-14T03:33:20.250Z")
    session = Session(NATIVE.rules)
    for line in lines[1:]:
        session.fold(NATIVE.row(line))
    assert session.problems == []
    assert session.id_of(session.heads["main"].leaf) == "a2"
    plan = plan_context(session, session.heads["main"].leaf)
    assert [session.id_of(seq) for seq in plan.seqs] == ["a1", "a2"]
    assert NATIVE.timestamp(lines[1]) == "2026-07-14T03:33:21.250Z"


class Doubling(Native):
    """Writes what is not one line."""

    def encode(self, entry: Entry | Opaque) -> bytes:
        return super().encode(entry).replace(b",", b",\n")


class Trusting(Native):
    """Takes anything for an entry."""

    def row(self, line: bytes) -> Row:
        try:
            return super().row(line)
        except BadLine:
            return Row(Kind.OPAQUE, "e1", None)


class Forgetful(Native):
    """Passes on what it knows and drops the rest."""

    def wire(self, line: bytes) -> bytes:
        known = {name: value for name, value in fields(line).items() if not name.startswith("zz")}
        return join(known)


class Greedy(Native):
    """Takes any object for a header."""

    def decode_header(self, line: bytes) -> Header:
        try:
            return super().decode_header(line)
        except BadHeader:
            return Header(version=1, id="abcdefgh")


class Deep(Native):
    """Takes what the interpreter's stack takes."""

    def row(self, line: bytes) -> Row:
        try:
            return super().row(line)
        except BadLine as bad:
            if "levels deep" in str(bad) and len(line) < 10_000:
                return super().row(line[: line.index(b',"zz"')] + b"}")
            raise


@pytest.mark.parametrize("broken", [Doubling(), Trusting(), Forgetful(), Greedy(), Deep()])
def test_a_dialect_that_breaks_a_promise_is_caught(broken: Native) -> None:
    with pytest.raises(AssertionError):
        check_dialect(broken, (SAMPLES / "native" / "every-type.jsonl").read_bytes())


# -- header ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"", "no session header"),
        (b"[]", "no session header"),
        (b"\xef\xbb\xbf" + HEADER, "byte order mark"),
        (HEADER.replace(b"/x", b"\xff"), "UTF-8"),
        (HEADER.replace(b'"version":1', b'"version":2'), "newer version"),
        (HEADER.replace(b'"version":1', b'"version":"1"'), "no number"),
        (HEADER.replace(b'"id":"abcdefgh"', b'"id":""'), "no id"),
        (HEADER.replace(b'"id":"abcdefgh"', b'"id":7'), "no id"),
        (HEADER.replace(b"session_header", b"message"), "no session header"),
        (HEADER.replace(b"session_header", b"session"), "no session header"),
    ],
)
def test_what_is_no_header_says_why(line: bytes, why: str) -> None:
    with pytest.raises(BadHeader, match=f"(?i){why}"):
        NATIVE.decode_header(line)
    assert sniff(line) is not NATIVE


def test_a_header_keeps_every_field() -> None:
    line = (SAMPLES / "native" / "every-type.jsonl").read_bytes().split(b"\n")[0]
    assert NATIVE.encode_header(NATIVE.decode_header(line)) == line


def test_a_header_field_of_the_wrong_type_is_as_if_absent() -> None:
    line = (
        b'{"type":"session_header","id":"abcdefgh","cwd":null,"title":5,"tags":"a","dry_run":"no",'
        b'"lineage":null,"parent_session":{}}'
    )
    assert NATIVE.decode_header(line) == Header(version=1, id="abcdefgh", cwd="")


def test_a_header_is_written_with_version_and_a_time_in_text() -> None:
    header = Header(id="abcdefgh", timestamp=1784000000.25, cwd="/x", metadata=Raw(b'{"a":\n1}'))
    assert NATIVE.encode_header(header) == (
        b'{"type":"session_header","version":1,"id":"abcdefgh",'
        b'"timestamp":"2026-07-14T03:33:20.250Z","cwd":"/x","metadata":{"a":1}}'
    )


def test_there_is_nothing_to_migrate() -> None:
    assert NATIVE.migrate([HEADER, b"x"]) == [HEADER, b"x"]


def test_a_second_header_is_no_entry() -> None:
    for word in ("session_header", "session"):
        with pytest.raises(BadLine, match="second header"):
            NATIVE.row(line_of(type=word))


# -- rows --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "kind"),
    [
        ("user", Kind.USER),
        ("assistant", Kind.ASSISTANT),
        ("tool", Kind.TOOL),
        ("toolResult", Kind.TOOL),
        ("tool_result", Kind.TOOL),
        ("system", Kind.OTHER_ROLE),
        ("Assistant", Kind.OTHER_ROLE),
    ],
)
def test_the_role_decides_the_kind_of_a_message(role: str, kind: Kind) -> None:
    line = line_of(type="message", message={"role": role, "model": "m"})
    row = NATIVE.row(line)
    assert row.kind == kind
    assert (row.setting is not None) == (kind == Kind.ASSISTANT)
    assert (
        NATIVE.row_of(Message(id="e1", message=Raw(b'{"role":"%s"}' % role.encode()))).kind == kind
    )


@pytest.mark.parametrize(
    "message", [None, "hi", 5, [], {}, {"role": None}, {"role": 3}, {"role": ""}]
)
def test_a_message_without_a_role_stays_an_entry(message: object) -> None:
    row = NATIVE.row(line_of(type="message", parent_id="e0", message=message))
    assert (row.kind, row.id, row.parent_id) == (Kind.OPAQUE, "e1", "e0")
    assert NATIVE.row(line_of(type="message")).kind == Kind.OPAQUE


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"message": {"role": "assistant", "model": {"id": "m"}}}, {"kind": Kind.ASSISTANT}),
        ({"message": {"role": "assistant", "model": ""}}, {"setting": None}),
        ({"message": {"role": "user"}, "head": None}, {"head": "main", "kind": Kind.USER}),
        ({"message": {"role": "user"}, "head": 4}, {"head": "main"}),
        ({"message": {"role": "user"}, "head": "b"}, {"head": "b"}),
        ({"message": {"role": "user"}, "atom": [1, 2]}, {"atom": (1, 2)}),
        ({"message": {"role": "user"}, "atom": [3, 2]}, {"atom": None}),
        ({"message": {"role": "user"}, "atom": [0, 2]}, {"atom": None}),
        ({"message": {"role": "user"}, "atom": "1/2"}, {"atom": None, "kind": Kind.USER}),
        ({"message": {"role": "user"}, "atom": [1]}, {"atom": None, "kind": Kind.USER}),
        ({"message": {"role": "user"}, "parent_id": 7}, {"parent_id": "7", "kind": Kind.USER}),
        ({"message": {"role": "user"}, "parent_id": ""}, {"parent_id": ""}),
    ],
)
def test_an_unusual_field_does_not_cost_the_entry(
    members: dict[str, Any], expected: dict[str, Any]
) -> None:
    row = NATIVE.row(line_of(type="message", **members))
    assert {name: getattr(row, name) for name in expected} == expected


@pytest.mark.parametrize("word", sorted(ENTRY_TYPES))
def test_an_entry_of_any_type_is_read_with_nothing_but_type_and_id(word: str) -> None:
    line = line_of(type=word)
    row = NATIVE.row(line)
    assert (row.id, row.parent_id, row.head) == ("e1", None, "main")
    assert NATIVE.preview(line) == ""
    assert NATIVE.timestamp(line) == ""
    assert NATIVE.model(line) is None
    assert NATIVE.reading(line) is None


@pytest.mark.parametrize(
    ("members", "effect"),
    [
        ({"type": "label", "target_id": "t", "label": "x"}, LabelEffect("t", "x")),
        ({"type": "label", "target_id": "t", "label": ""}, LabelEffect("t", None)),
        ({"type": "label", "target_id": "t"}, LabelEffect("t", None)),
        ({"type": "label", "target_id": 5, "label": 5}, LabelEffect("5", None)),
        ({"type": "leaf", "target_id": "t"}, LeafEffect("t")),
        ({"type": "leaf", "target_id": None, "reason": "reset"}, LeafEffect(None)),
        ({"type": "leaf"}, LeafEffect(None)),
        ({"type": "leaf", "target_id": "t", "reason": "drop"}, LeafEffect("t", drop=True)),
        ({"type": "leaf", "target_id": ["t"]}, LeafEffect('["t"]')),
        (
            {"type": "compaction", "first_kept_entry_id": "k"},
            CompactionEffect("k", replacement=False),
        ),
        ({"type": "compaction", "messages": []}, CompactionEffect(None, replacement=True)),
        ({"type": "compaction", "messages": None}, CompactionEffect(None, replacement=False)),
        ({"type": "compaction", "messages": {}}, CompactionEffect(None, replacement=False)),
        ({"type": "session_info", "name": "n"}, InfoEffect({"title": "n"})),
        ({"type": "session_info", "name": ""}, InfoEffect({"title": None})),
        ({"type": "session_info", "name": None}, InfoEffect({"title": None})),
        ({"type": "session_info", "name": 4, "zz": 1}, InfoEffect({})),
        (
            {"type": "session_info", "tags": ["a"], "dry_run": True, "plan": None},
            InfoEffect({"tags": ["a"], "dry_run": True, "plan": None}),
        ),
        ({"type": "session_info", "tags": "a", "dry_run": 1, "agent": []}, InfoEffect({})),
        (
            {"type": "session_info", "metadata": {"a": [1, 2]}, "compaction": None},
            InfoEffect({"metadata": Raw(b'{"a":[1,2]}'), "compaction": None}),
        ),
        ({"type": "custom", "custom_type": "x"}, None),
    ],
)
def test_an_effect_is_read_leniently(members: dict[str, Any], effect: Effect | None) -> None:
    assert NATIVE.row(line_of(**members)).effect == effect


def test_facts_do_not_depend_on_blanks_and_keep_half_a_surrogate_pair() -> None:
    spaced = b'{"type":"session_info","id":"e1","metadata":{"a" : 1.50}}'
    assert NATIVE.row(spaced).effect == InfoEffect({"metadata": Raw(b'{"a":1.50}')})
    lone = rb'{"type":"session_info","id":"e1","metadata":{"a":"\udc00"}}'
    assert NATIVE.row(lone).effect == InfoEffect({"metadata": Raw(rb'{"a":"\udc00"}')})


def test_nesting_beyond_the_stack_is_a_bad_line() -> None:
    deep = b'{"type":"message","id":"a","x":' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}"
    with pytest.raises(BadLine, match="deep"):
        NATIVE.row(deep)


@given(st.binary(max_size=80) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_an_entry_or_a_bad_line(line: bytes) -> None:
    try:
        row = NATIVE.row(line)
    except BadLine:
        return
    assert row.id == json.loads(line)["id"]


@given(
    st.dictionaries(st.sampled_from(["parent_id", "head", "atom", "message", "timestamp"]), JSON)
)
def test_an_object_with_type_and_id_is_always_an_entry(members: dict[str, Any]) -> None:
    line = line_of(**{**members, "type": "message"})
    row = NATIVE.row(line)
    assert row.id == "e1"
    assert NATIVE.preview(line) is not None
    assert NATIVE.timestamp(line) is not None
    NATIVE.context([ContextLine(row.id, row.kind, line)])


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
                row = dialect.row(line)
                dialect.context([ContextLine(row.id, row.kind, line)])
                dialect.wire(line)
                dialect.preview(line)
                dialect.model(line)
                if (entry := entry_of(dialect, line)) is not None:
                    dialect.encode(entry)
    assert visits == []
    NATIVE.reading(line_of(type="message", message={"role": "user"}))
    assert len(visits) == 1


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
    seen = "".join("\ufffd" if is_obeyed(character) else character for character in one_line)
    assert shown == seen[:60].rstrip() + "..."


def is_obeyed(character: str) -> bool:
    """Return whether a terminal obeys a character instead of showing it."""
    marks = "\u061c\u200e\u200f\ufeff"
    turns = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    return (
        unicodedata.category(character) == "Cc"
        or unicodedata.bidirectional(character) in turns
        or character in marks
    )


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
