"""The native dialect: real files, the header, and what a line is to the index."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from sessiond.dialects import DIALECTS, sniff
from sessiond.dialects.base import BadHeader, BadLine, ContextLine, current_lines
from sessiond.dialects.lenient_json import fields, join
from sessiond.dialects.native.dialect import NATIVE, Native
from sessiond.model.entries import (
    ENTRY_TYPES,
    Entry,
    Header,
    Message,
    Opaque,
)
from sessiond.model.row import (
    CompactionEffect,
    Effect,
    InfoEffect,
    Kind,
    LabelEffect,
    LeafEffect,
    Row,
)
from sessiond.session.context.context import plan_context
from sessiond.session.index import Session
from sessiond.testing.dialects import check_dialect, entry_of, lines_of
from tests.kit.lines import JSON, SAMPLES, line_of

HEADER = b'{"type":"session_header","version":1,"id":"abcdefgh","timestamp":"","cwd":"/x"}'


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


def test_the_lines_of_a_foreign_writer_are_read() -> None:
    lines = lines_of(NATIVE, (SAMPLES / "native" / "foreign-lines.jsonl").read_bytes())
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
    assert list(current_lines(NATIVE, [HEADER, b"x"])) == [HEADER, b"x"]


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
