"""The table of sessions on terminals of every width, and in a pipe."""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Any

import pytest

from sessiond.cli.ui.session_list import session_table


def row(session_id: str, agent: str, model: str | None, tokens: int) -> dict[str, Any]:
    return {
        "id": session_id,
        "updated_at": "2026-11-20T10:00:00.000Z",
        "agent_program": agent,
        "status": "interrupted",
        "turn_count": 12345,
        "message_count": 123456,
        "model": model,
        "usage": {"total_tokens": tokens},
        "title": "A title of many words that goes on and on, and on, and on",
        "cwd": "/home/ann/a/folder/far/below/other/folders",
        "lineage": {},
    }


ROWS = [
    row("5e550000-0000-4000-8000-000000000001", "claude-code", "claude-sonnet-4-5-20250929", 10**8),
    row("019f6000-0000-7000-8000-000000000001", "gemini-cli", None, 0),
]


@pytest.mark.parametrize("width", range(80, 200))
def test_a_list_is_a_table_from_80_columns_on(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(width))
    session_table(ROWS)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + len(ROWS)
    assert lines[0].split()[:2] == ["ID", "UPDATED"]
    assert {"STATUS", "TITLE"} <= set(lines[0].split())
    assert max(map(len, lines)) <= width


def test_a_wider_terminal_shows_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    shown: list[set[str]] = []
    for width in range(80, 200):
        monkeypatch.setenv("COLUMNS", str(width))
        session_table(ROWS)
        shown.append(set(capsys.readouterr().out.splitlines()[0].split()))
    assert all(before <= after for before, after in pairwise(shown))
    assert {"AGENT", "MODEL", "TOKENS"} <= shown[-1] - shown[0]


def test_a_pipe_gets_the_agent_behind_the_columns_that_it_always_got(
    capsys: pytest.CaptureFixture[str],
) -> None:
    session_table(ROWS)
    cells = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [(one[2], one[-1]) for one in cells] == [
        ("interrupted", "claude-code"),
        ("interrupted", "gemini-cli"),
    ]
