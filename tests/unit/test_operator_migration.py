"""Files of Operator's older generations: equal ids at every opening, and today's form after a copy."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessiond.dialects import sniff
from sessiond.dialects.base import BadLine, current_lines
from sessiond.dialects.operator.dialect import OPERATOR
from sessiond.dialects.operator.migrate import OperatorUpgrade, upgrade_of
from sessiond.testing.dialects import check_dialect
from tests.kit.lines import context_at, folded, leaf_of, spelled
from tests.kit.readers.operator import OperatorReader

Json = Any


def said(role: str, words: str, **more: Json) -> Json:
    text = {"type": "text", "content": words}
    time = "2026-01-15T10:30:00.500000"
    return {"contents": [text], "id": f"m-{words}", "timestamp": time, "role": role} | more


def entry(word: str, entry_id: str, parent_id: str | None, **more: Json) -> Json:
    time = "2026-01-15T10:30:01.250000"
    return {"type": word, "id": entry_id, "parent_id": parent_id, "timestamp": time} | more


V1 = spelled(
    {
        "type": "session_header",
        "version": 1,
        "id": "old-session",
        "timestamp": "2026-01-15T10:30:00.250000",
        "cwd": "/p",
        "parent_session_path": "/sessions/a.jsonl",
    },
    entry("llm", "a1", None, message=said("user", "one")),
    entry("llm", "a2", "a1", message=said("assistant", "two")),
    entry("custom_info", "a3", "a2", custom_type="goal", data={"n": 1}),
    entry("custom", "a4", "a3", message=said("custom", "note")),
    entry("custom", "a5", "a4", custom_type="cron", content=[{"type": "text", "content": "now"}]),
    entry("compaction_summary", "a6", "a5", summary="S", first_kept_entry_id="a4"),
    entry("llm", "a7", "a6", message=said("user", "three")),
    entry("leaf", "a8", "a7", target_id="a7"),
)
LIST = spelled(
    {
        "type": "metadata",
        "id": "telegram:42",
        "created_at": "2026-01-15T10:30:00",
        "updated_at": "2026-01-15T10:31:00",
        "metadata": {"cwd": "/p", "channel": "telegram"},
    },
    {"role": "user", "content": "one"},
    {
        "role": "assistant",
        "content": "reading",
        "tool_calls": [{"id": "t1", "function": {"name": "read", "arguments": {"path": "a"}}}],
        "mood": "calm",
    },
    {"role": "tool", "tool_call_id": "t1", "name": "read", "content": "text"},
    {"role": "assistant", "content": "done", "timestamp": "2026-01-15T10:30:30"},
)


@pytest.mark.parametrize("old", [V1, LIST], ids=["v1", "list"])
def test_a_migrated_file_is_one_of_todays_that_operator_reads(old: list[bytes]) -> None:
    migrated = list(current_lines(OPERATOR, old))
    found = sniff(old[0])
    assert found is OPERATOR
    assert list(current_lines(OPERATOR, migrated)) == migrated
    check_dialect(OPERATOR, b"".join(line + b"\n" for line in migrated))
    reader = OperatorReader(b"\n".join(migrated))
    session = folded(OPERATOR, migrated[1:])
    assert session.problems == []
    assert leaf_of(session) == reader.leaf_id
    context = [(source, one["role"]) for source, one in context_at(OPERATOR, migrated[1:])]
    assert context == [(source, role) for source, role, _ in reader.context()]


def test_the_first_generation_says_what_it_said() -> None:
    migrated = list(current_lines(OPERATOR, V1))
    assert json.loads(migrated[0]) == {
        "type": "session",
        "version": 3,
        "id": "old-session",
        "timestamp": 1768473000.25,
        "cwd": "/p",
        "parent_session": "/sessions/a.jsonl",
    }
    header = OPERATOR.decode_header(V1[0])
    assert (header.version, header.parent_session) == (1, "/sessions/a.jsonl")
    assert [
        (one["role"], one["contents"][0]["content"])
        for _, one in context_at(OPERATOR, migrated[1:])
    ] == [
        ("compaction_summary", "S"),
        ("custom", "note"),
        ("custom", "now"),
        ("user", "three"),
    ]
    first = json.loads(migrated[1])
    assert list(first) == ["id", "timestamp", "type", "message"]
    assert (first["timestamp"], first["message"]["id"]) == (1768473001.25, "m-one")


def test_a_list_of_messages_says_what_it_said() -> None:
    migrated = list(current_lines(OPERATOR, LIST))
    header = json.loads(migrated[0])
    assert (header["id"], header["cwd"]) == ("telegram:42", "/p")
    # What today's header has no place for is kept.
    assert header["metadata"] == {"cwd": "/p", "channel": "telegram"}
    assert OPERATOR.decode_header(LIST[0]).version == 0
    assert [
        role
        for role, _ in [
            (one["role"], one["contents"][0]["content"])
            for _, one in context_at(OPERATOR, migrated[1:])
        ]
    ] == ["user", "assistant", "tool", "assistant"]
    call = json.loads(migrated[2])["message"]
    assert call["contents"][1]["name"] == "read"
    assert call["contents"][1]["args"] == {"path": "a"}
    assert call["mood"] == "calm"
    result = json.loads(migrated[3])["message"]["contents"]
    assert [(one["id"], one["content"]) for one in result] == [("t1", "text")]
    assert json.loads(migrated[4])["timestamp"] == 1768473030.0


def test_ids_are_the_same_at_every_opening_and_differ_between_files() -> None:
    ids = [json.loads(line)["id"] for line in list(current_lines(OPERATOR, LIST))[1:]]
    assert ids == [json.loads(line)["id"] for line in list(current_lines(OPERATOR, LIST))[1:]]
    assert len(set(ids)) == len(ids)
    other = [LIST[0].replace(b":42", b":43"), *LIST[1:]]
    assert not set(ids) & {
        json.loads(line)["id"] for line in list(current_lines(OPERATOR, other))[1:]
    }


@pytest.mark.parametrize("old", [V1, LIST], ids=["v1", "list"])
def test_lines_come_again_as_they_were_taken(old: list[bytes]) -> None:
    broken = [*old[:3], b"{half", b'{"x":1}', *old[3:], b'{"type":"metadata","id":"x"}']
    upgrade = upgrade_of(broken[0])
    assert upgrade is not None
    taken = [upgrade.header, *map(upgrade.take, broken[1:])]
    assert [upgrade.again(seq, line) for seq, line in enumerate(broken)] == taken
    assert taken[3:5] == [b"{half", b'{"x":1}']
    assert OPERATOR.row(upgrade.peek(old[1])).kind == OPERATOR.row(taken[1]).kind
    with pytest.raises(BadLine):
        upgrade.peek(b"{half")


def test_no_entry_of_a_list_stands_below_a_line_with_an_empty_id() -> None:
    bare = {"role": "user", "content": "hi"}
    taken = list(current_lines(OPERATOR, [LIST[0], *spelled(bare, entry("llm", "", None), bare)]))
    with pytest.raises(BadLine, match="has no id"):
        OPERATOR.row(taken[2])
    assert OPERATOR.row(taken[3]).parent_id == OPERATOR.row(taken[1]).id


def test_a_current_file_has_no_migration() -> None:
    assert upgrade_of(b'{"type":"session","version":3,"id":"a","timestamp":1.5,"cwd":"/x"}') is None
    assert isinstance(upgrade_of(LIST[0]), OperatorUpgrade)
