"""The places of problems, and the texts of refusals and hovers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from sessiond.lsp.findings import Finding, Severity, Verdict, findings, refusal
from sessiond.lsp.hovering import Entry, describe
from sessiond.lsp.text.text import Encoding, Text
from sessiond_client.results import Head
from sessiond_client.tree_results import TreeNode

UTF16 = Encoding("utf-16-le", 2)
LINES = (
    '{"type":"session_header"}\n'
    '{"type":"message","x":"\U0001f600","id":"a1","parent_id":"gone"}\n'
    '{"type":"compaction","id":"c1","firstKeptEntryId":"a9"}\n'
    "no JSON\n"
)


def found(*problems: tuple[int, str], read_only: bool = False, **more: Any) -> list[Finding]:
    listed = [{"line": line, "kind": kind, "detail": f"why {kind}"} for line, kind in problems]
    answer = {
        "problems": listed,
        "problem_count": max(len(listed), more.pop("count", 0)),
        "read_only": read_only,
        "repairable": True,
        "reason": more.pop("reason", None),
    }
    return findings(msgspec.convert(answer, Verdict), Text(LINES, UTF16), **more)


@pytest.mark.parametrize(
    ("line", "kind", "severity", "place"),
    [
        (4, "bad_line", Severity.ERROR, (3, 0, 7)),
        (2, "orphan", Severity.WARNING, (1, 50, 54)),
        (2, "duplicate_id", Severity.WARNING, (1, 33, 35)),
        (3, "first_kept_off_path", Severity.WARNING, (2, 51, 53)),
        (3, "unknown_target", Severity.WARNING, (2, 0, 55)),
        (9, "torn_tail", Severity.WARNING, (4, 0, 0)),
        (1, "something_new", Severity.WARNING, (0, 0, 25)),
    ],
)
def test_a_problem_is_shown_at_the_member_at_fault(
    line: int, kind: str, severity: Severity, place: tuple[int, int, int]
) -> None:
    (one,) = found((line, kind))
    assert (one.line, one.start, one.end) == place
    assert (one.severity, one.code, one.message) == (severity, kind, f"why {kind}")


def test_what_concerns_the_whole_file_comes_first() -> None:
    shown = found((4, "bad_line"), read_only=True, is_stale=True, cut_at=3)
    assert [one.code for one in shown] == ["in_use", "read_only", "torn_tail", "bad_line"]
    assert [one.line for one in shown] == [0, 0, 3, 3]
    assert found() == []


@pytest.mark.parametrize(
    ("problems", "reason", "words"),
    [
        ([], "older_version", "`sessiond import` makes a session of it"),
        ([], "other_agent", "`sessiond fork` makes a session that goes on from it"),
        ([], "not_writable", "`sessiond fork` makes a session that goes on from it"),
        ([(4, "bad_line")], "other_agent", "`sessiond fork` makes a session that goes on from it"),
        ([(4, "bad_line")], "bad_line", "`sessiond repair` makes it writable again"),
    ],
)
def test_a_file_that_is_only_read_says_why_and_what_to_do(
    problems: list[tuple[int, str]], reason: str, words: str
) -> None:
    first, *_ = found(*problems, read_only=True, reason=reason)
    assert first.code == "read_only"
    assert first.message.endswith(words)


def test_what_is_not_listed_is_counted() -> None:
    *_, last = found((4, "bad_line"), count=1234)
    assert (last.code, last.message[:19]) == ("more", "1,233 more problems")
    *_, last = found((4, "bad_line"), count=2)
    assert last.message == "1 more problem: see `sessiond verify`"


@pytest.mark.parametrize(
    ("kind", "data", "line", "words"),
    [
        ("session_corrupt", {"line": 1}, 0, "not read as a session: why"),
        ("session_corrupt", {}, 0, "not read as a session: why"),
        (
            "session_locked",
            {"holder": {"pid": 7, "host": "box", "since": "noon"}},
            0,
            "process 7 on box since noon has the file open",
        ),
        ("session_locked", {}, 0, "another process has the file open"),
        ("storage_error", {"errno": "EACCES"}, 0, "sessiond cannot read this file: why"),
    ],
)
def test_a_refusal_is_a_note_with_the_reason(
    kind: str, data: dict[str, Any], line: int, words: str
) -> None:
    one = refusal(kind, "why", data, Text(LINES, UTF16))
    assert one is not None
    assert (one.line, one.severity, one.code, one.message) == (line, Severity.NOTE, kind, words)


@pytest.mark.parametrize("kind", ["storage_error", "draining", "internal"])
def test_what_is_not_about_the_file_is_not_shown(kind: str) -> None:
    assert refusal(kind, "why", {"errno": "ENOENT"}, Text("", UTF16)) is None


def test_a_hover_says_what_is_known_and_nothing_that_moves_a_cursor() -> None:
    wire = {
        "type": "message",
        "id": "a1",
        "parent_id": "p1",
        "timestamp": "2026-01-15T10:30:01.000Z",
        "message": {
            "role": "assistant",
            "model": "m\x1b-1",
            "usage": {"input": 1200, "output_tokens": 7, "cost": {}},
        },
    }
    node = TreeNode("a1", "p1", 4, "message", 3, 2, on_active_path=True, preview="\x1b]0;x")
    heads = [Head("main", "a1"), Head("other", "p1"), Head("review", "a1")]
    text = describe(Entry(wire, 4, 6, 2, "mark\u202e", node), heads)
    assert text.split("\n") == [
        "message, assistant (m -1)",
        "id: a1",
        "parent: p1",
        "written: 2026-01-15T10:30:01.000Z",
        "line: 7",
        "seq: 4",
        "depth: 3",
        "children: 2",
        "label: mark",
        "heads here: main, review",
        "active path: yes",
        "tokens: input 1,200, output 7",
        "",
        "]0;x",
    ]


@pytest.mark.parametrize("odd", [7, "text", [], {"usage": 7}, {"usage": {"input": "many"}}])
def test_odd_payloads_are_described_too(odd: Any) -> None:
    wire = {"type": "message", "id": "a1", "message": odd, "tokens_before": 5}
    assert describe(Entry(wire, 1, None), []).split("\n") == [
        "message",
        "id: a1",
        "seq: 1",
        "tokens: before 5",
    ]
