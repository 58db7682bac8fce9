"""Lenses, fixes and open calls: which are offered where."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from lsprotocol import types

from sessiond.limits import LENS_ENTRIES_MAX
from sessiond.lsp.features.commands import COMMANDS
from sessiond.lsp.features.fixing import fixes
from sessiond.lsp.features.lenses import lenses
from sessiond.lsp.findings import LastTurn, Severity, open_call_findings, open_calls
from sessiond.lsp.text.text import Text
from tests.kit.lsp_views import UTF16, node, view_of

TEXT = "".join(f'{{"type":"message","id":"e{line}"}}\n' for line in range(7))
READ_ONLY: dict[str, Any] = {"read_only": True, "read_only_reason": "other_agent"}


def titles(kinds: str, **info: Any) -> list[str]:
    """Return the lenses of a chain of entries, each line's joined by commas."""
    nodes = [
        node(
            f"e{seq}",
            f"e{seq - 1}",
            seq,
            what,
            on_active_path=True,
            label=f"l{seq}" if seq == 2 else None,
        )
        for seq, what in enumerate(kinds.split(), 1)
    ]
    lines: dict[int, list[str]] = {}
    for lens in lenses(view_of(TEXT, nodes, info)):
        assert lens.command is not None
        lines.setdefault(lens.range.start.line, []).append(lens.command.title.split()[0])
    return [",".join(line) for line in lines.values()]


def test_a_compaction_is_offered_where_the_daemon_would_accept_one() -> None:
    assert titles("model_change user assistant tool user") == [
        "branch,label,context",
        "branch,label:,context",
        "branch,label,context,compact",
        "branch,label,context",
        "branch,label,context,compact",
    ]
    behind = titles("user assistant compaction user assistant")
    assert ["compact" in one for one in behind] == [False, False, False, False, True]


@pytest.mark.parametrize("info", [READ_ONLY, {"archived": True}])
def test_a_session_that_cannot_be_changed_is_offered_what_reads(info: dict[str, Any]) -> None:
    assert titles("user assistant user", **info) == ["context"] * 3


def test_only_the_last_entries_have_lenses() -> None:
    count = LENS_ENTRIES_MAX + 5
    nodes = [node(f"e{seq}", None, seq, "model_change") for seq in range(1, count + 1)]
    text = "".join(f'{{"type":"x","id":"e{line}"}}\n' for line in range(count + 1))
    found = lenses(view_of(text, nodes, READ_ONLY))
    assert [lens.range.start.line for lens in found] == [*range(6, count + 1)]


def fix(code: str, line: int = 1, **info: Any) -> tuple[str | None, str | None]:
    """Return the command that is offered for a problem, and the reason why there is none."""
    at = types.Range(types.Position(line, 0), types.Position(line, 9))
    problem = types.Diagnostic(at, "what is wrong", code=code, source="sessiond")
    view = view_of(TEXT, [node("e1", None, 1)], info)
    found = list(fixes(view, [problem], shows_disabled=True))
    assert [one.edit for one in found] == [None] * len(found)
    assert bool(list(fixes(view, [problem], shows_disabled=False))) == any(
        one.command is not None for one in found
    )
    if not found:
        return None, None
    command, disabled = found[0].command, found[0].disabled
    reason = None if disabled is None else disabled.reason
    if command is None:
        return None, reason
    arguments = [str(one) for one in command.arguments or ()]
    return " ".join([command.command, *arguments[1:]]), reason


def test_a_fix_is_offered_where_the_daemon_has_one() -> None:
    for code in ("bad_line", "torn_tail", "incomplete_atom", "orphan"):
        assert fix(code) == ("sessiond.repair", None)
        assert "another program" in str(fix(code, dialect="pi")[1])
    assert fix("read_only", read_only=True, read_only_reason="bad_line")[0] == "sessiond.repair"
    assert fix("read_only", read_only=True, read_only_reason="older_version") == (None, None)
    assert fix("missing_result") == ("sessiond.repair e1", None)
    assert fix("missing_result", line=5) == (None, None)
    assert "another program" in str(fix("missing_result", **READ_ONLY)[1])
    assert fix("duplicate_id")[0] is None
    assert "the later one" in str(fix("duplicate_id")[1])
    assert fix("something_new") == (None, None)


def test_the_page_about_editors_names_every_command_with_its_arguments() -> None:
    page = (Path(__file__).parents[2] / "docs" / "editors.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `(sessiond\.\w+)` \| ([^|]+) \|", page, re.MULTILINE))
    assert rows.keys() == COMMANDS.keys()
    for name, told in rows.items():
        assert len(told.split(",")) == len(COMMANDS[name].arguments.__struct_fields__), name


def turn(status: str, *blocks: tuple[str, str, str]) -> LastTurn:
    """Return a turn of blocks, each with its type, the id of its call, and its state."""
    shown = [{"type": kind, "meta": {"id": call, "state": state}} for kind, call, state in blocks]
    return msgspec.convert({"status": status, "response": [*shown, {"type": "text"}]}, LastTurn)


def test_open_calls_are_those_of_a_pending_turn_that_run() -> None:
    blocks = (("tool", "c1", "done"), ("tool", "c2", "running"), ("text", "c3", "running"))
    assert open_calls(turn("pending", *blocks)) == ["c2"]
    for status in ("streaming", "done", "error"):
        assert open_calls(turn(status, *blocks)) == []


def test_open_calls_are_shown_at_their_last_line() -> None:
    text = Text('{"id":"c1"}\n{"calls":["c1","c2"]}\n{"calls":["c3"]}\n', UTF16)
    found = open_call_findings(["c1", "c2", "c3", "unknown"], text)
    assert [(one.line, one.start, one.end, one.code, one.severity) for one in found] == [
        (1, 0, 21, "missing_result", Severity.NOTE),
        (2, 0, 16, "missing_result", Severity.NOTE),
    ]
    assert [one.message.split(" without")[0] for one in found] == ["2 tool calls", "1 tool call"]
