"""Samples of other agents' files: the second reader gives the readings that were worked out by hand.

The expected readings come with the samples; they were made with the programs' own readers where there are
some, and by the rules of the formats elsewhere.
"""

from __future__ import annotations

import json
from typing import Final

from tests.kit.agent_files.said import Reading, Said, whole_lines
from tests.kit.agent_files.second_claude import read_claude
from tests.kit.agent_files.second_codex import read_codex
from tests.kit.agent_files.second_gemini import read_gemini
from tests.kit.agents import CHATS, CODEX, SAMPLES
from tests.kit.lines import lines_in

CLAUDE_ID: Final = "c1a0de00-0000-4000-8000-0000000000"
THREAD_ID: Final = "019f5000-0000-7000-8000-00000000000"
GEMINI_TOKENS: Final = ("input", "output", "cached", "thoughts", "tool", "total")
SUMMARY: Final = "This session is being continued from a previous conversation. Summary: "


def ids(*numbers: int) -> tuple[str, ...]:
    return tuple(
        f"{CLAUDE_ID}{number}" if number > 9 else f"{CLAUDE_ID}0{number}" for number in numbers
    )


def user(number: int, text: str) -> Said:
    return Said("user", ids(number), (text,))


def reply(number: int, text: str) -> Said:
    return Said("assistant", ids(number), (text,))


def said_items(reading: Reading) -> list[tuple[str, ...]]:
    """Return the role and the texts of each message."""
    return [(one.role, *one.texts) for one in reading.context]


# Claude Code.

FIRST_TURN: Final = (
    user(1, "add a ping command"),
    Said("assistant", ids(2, 3), (), ("toolu_01",), ("",)),
    Said("tool", ids(4), ("main.rs",), ("toolu_01",)),
    reply(5, "Added ping to main.rs."),
    user(8, "make it smaller"),
    reply(9, "It is smaller now."),
)


def test_claude_branch_and_compaction() -> None:
    lines = lines_in(SAMPLES / "claude-branch-compact.jsonl")
    reading = read_claude(lines)
    assert len(lines) == 15
    assert (reading.leaf,) == ids(13)
    assert reading.title == reading.stated_title == "Add ping command"
    assert list(reading.context) == [
        Said("marker", ids(10)),
        Said("summary", ids(11), (f"{SUMMARY}ping was added, then made smaller.",)),
        user(8, "make it smaller"),
        reply(9, "It is smaller now."),
        user(12, "now add a test"),
        reply(13, "Test added."),
    ]
    assert reading.usage == {"input": 107, "output": 205, "cache_write": 1570, "cache_read": 3200}
    assert [one for one, parent in reading.tree.items() if (parent,) == ids(5)] == list(ids(6, 8))
    assert reading.tree[ids(10)[0]] is None
    assert (reading.tree[ids(12)[0]],) == ids(9)
    assert reading.prompts == ids(1, 6, 8, 12)
    assert reading.context_tokens == 15 + 350 + 0 + 30
    assert (reading.cwd, reading.model) == ("/home/ann/ping", "claude-sonnet-5")
    assert (reading.bad, reading.missing) == (0, frozenset())
    before = read_claude(lines[:10])
    assert before.context == FIRST_TURN
    replies = {json.loads(line)["message"]["id"] for line in lines if b'"type":"assistant"' in line}
    assert replies == {f"msg_0{number}" for number in range(1, 6)}


def test_claude_parallel_calls_and_rewind() -> None:
    lines = lines_in(SAMPLES / "claude-parallel-rewind.jsonl")
    reading = read_claude(lines)
    assert len(lines) == 10
    assert (reading.leaf,) == ids(26)
    assert reading.title == reading.stated_title == "two files"
    assert list(reading.context) == [
        user(21, "read both files"),
        Said("assistant", ids(22, 23), (), ("toolu_21", "toolu_22")),
        Said("tool", ids(24), ("alpha",), ("toolu_21",)),
        Said("tool", ids(25), ("no such file",), ("toolu_22",), failed=True),
        reply(26, "a.txt says alpha; b.txt is missing."),
    ]
    assert reading.usage == {"input": 33, "output": 170, "cache_write": 1020, "cache_read": 1880}
    assert (reading.tree[ids(24)[0]],) == ids(22)
    without_pin = read_claude(lines[:-1])
    assert (without_pin.leaf,) == ids(28)
    assert without_pin.context == (
        *reading.context,
        user(27, "create b.txt"),
        reply(28, "Created b.txt."),
    )


def test_claude_summary_as_parent_and_a_torn_line() -> None:
    lines, tail = whole_lines((SAMPLES / "claude-anchor-child-torn.jsonl").read_bytes())
    assert len(lines) == 7
    assert tail.startswith(b'{"parentUuid"')
    reading = read_claude(lines)
    assert (reading.leaf,) == ids(37)
    assert (reading.title, reading.stated_title) == ("what is 2+2", None)
    assert list(reading.context) == [
        Said("marker", ids(35)),
        Said("summary", ids(36), (f"{SUMMARY}sums.",)),
        user(33, "and 3+3"),
        reply(34, "6"),
        user(37, "and 4+4"),
    ]
    assert reading.usage == {"input": 16, "output": 10, "cache_write": 530, "cache_read": 500}
    # All that follows the boundary is a prompt: the kept reply tells an old size.
    assert reading.context_tokens is None
    rest = b'-4000-8000-000000000038","message":{"id":"msg_38","role":"assistant","content":"8"}}'
    later = read_claude([*lines, tail + rest])
    assert (later.leaf,) == ids(38)
    assert later.context == (*reading.context, reply(38, "8"))


def test_claude_subagent() -> None:
    folder = SAMPLES / "claude-subagent" / "5e55a1d0-0000-4000-8000-000000000001" / "subagents"
    path = folder / "agent-a1b2c3d4e5f6a7b8c.jsonl"
    reading = read_claude(lines_in(path), json.loads(path.with_suffix(".meta.json").read_bytes()))
    assert (reading.leaf,) == ids(44)
    assert reading.title == "Find main.rs"
    assert list(reading.context) == [
        user(41, "Find main.rs"),
        Said("assistant", ids(42), (), ("toolu_41",)),
        Said("tool", ids(43), ("src/main.rs",), ("toolu_41",)),
        reply(44, "src/main.rs"),
    ]
    assert reading.usage == {"input": 11, "output": 28, "cache_write": 340, "cache_read": 300}
    parent = lines_in(SAMPLES / "claude-branch-compact.jsonl")
    both = read_claude([*parent, *lines_in(path)])
    assert both.context == read_claude(parent).context
    assert both.usage == read_claude(parent).usage
    assert both.more_usage["aside"] == reading.usage


# Codex.


def test_codex_compaction() -> None:
    lines = lines_in(CODEX, f"{THREAD_ID}1")
    index = lines_in(SAMPLES / "codex" / "session_index.jsonl")
    reading = read_codex(lines, index=index)
    assert len(lines) == 19
    assert reading.leaf == "line-19"
    assert reading.title == reading.stated_title == "Calc operators"
    assert (reading.model, reading.cwd) == ("gpt-5.5", "/home/ann/calc")
    injected = "<environment_context>\n  <cwd>/home/ann/calc</cwd>\n</environment_context>"
    assert list(reading.context) == [
        Said("user", ("line-14/0",), (injected,)),
        Said("user", ("line-14/1",), ("add mul to calc",)),
        Said("marker", ("line-14/2",)),
        Said("user", ("line-16",), ("now add div",)),
        Said("assistant", ("line-18",), ("Added div.",)),
    ]
    assert reading.usage == {
        "input": 900 + 400,
        "cached": 600,
        "output": 60 + 30,
        "reasoning": 20,
        "total": 960 + 430,
    }
    assert reading.more_usage["final"] == {
        "input": 2100,
        "cached": 600,
        "output": 130,
        "reasoning": 20,
        "total": 2230,
    }
    assert reading.context_tokens == 430
    assert reading.prompts == ("line-5", "line-16")
    assert read_codex(lines).title == "add mul to calc"
    before = read_codex(lines[:13])
    assert list(before.context[2:]) == [
        Said("assistant", ("line-7", "line-8"), (), ("call_1",), ("Look first",)),
        Said("tool", ("line-9",), ("def add(a,b): return a+b",), ("call_1",)),
        Said("assistant", ("line-11",), ("Added mul.",)),
    ]
    assert before.model == "gpt-5.5-codex"


def test_codex_rollback() -> None:
    lines = lines_in(CODEX, f"{THREAD_ID}2")
    reading = read_codex(lines)
    assert (len(lines), reading.leaf) == (20, "line-20")
    assert (reading.title, reading.stated_title) == ("name a colour", None)
    assert reading.model == "gpt-5.5-codex"
    assert said_items(reading) == [
        ("user", "name a colour"),
        ("assistant", "Red."),
        ("user", "name a city"),
        ("assistant", "Oslo."),
    ]
    assert reading.usage["total"] == 0
    # The dropped turn is a branch beside the turn that came after the rollback.
    assert reading.tree["line-10"] == reading.tree["line-17"] == "line-6"
    assert said_items(read_codex(lines[:13]))[2:] == [
        ("user", "name a fruit"),
        ("assistant", "Pear."),
    ]
    assert said_items(read_codex(lines[:14])) == said_items(reading)[:2]


def test_codex_paginated_and_its_fork() -> None:
    parent, child = lines_in(CODEX, f"{THREAD_ID}a"), lines_in(CODEX, f"{THREAD_ID}b")
    reading = read_codex(parent)
    assert json.loads(parent[-1])["ordinal"] == 10
    assert (len(parent), reading.leaf) == (11, "line-11")
    assert (reading.title, reading.model) == ("name a colour", "gpt-5.5-codex")
    assert said_items(reading) == [
        ("user", "name a colour"),
        ("assistant", "Red."),
        ("user", "name a fruit"),
        ("assistant", "Pear."),
    ]
    files = {f"{THREAD_ID}a": next(CODEX.glob(f"*{THREAD_ID}a.jsonl")).read_bytes()}
    fork = read_codex(child, files.get)
    assert json.loads(child[-1])["ordinal"] == 11
    assert (len(child), fork.leaf) == (6, "line-6")
    assert (fork.title, fork.model) == ("name a colour", "gpt-5.5-codex")
    assert said_items(fork) == [
        ("user", "name a colour"),
        ("assistant", "Red."),
        ("user", "name a city"),
        ("assistant", "Oslo."),
    ]
    assert [one.ids for one in fork.context[1:3]] == [(f"{THREAD_ID}a/line-5",), ("line-3",)]
    assert fork.usage["total"] == reading.usage["total"] == 0
    alone = read_codex(child)
    assert alone.missing == {f"{THREAD_ID}a"}
    assert said_items(alone) == said_items(fork)[2:]


# Gemini CLI.


def test_gemini_messages_written_again_and_rewind() -> None:
    lines = lines_in(CHATS / "session-2026-11-03T11-00-7d3c1a20.jsonl")
    root = (CHATS.parent / ".project_root").read_text()
    reading = read_gemini(lines, root)
    assert len(lines) == 14
    assert reading.leaf == "g4"
    assert reading.title == reading.stated_title == "Look at a.txt"
    assert (reading.model, reading.cwd) == ("gemini-3-flash", "/home/ann/notes")
    assert list(reading.context) == [
        Said("user", ("u1",), ("what is here?",)),
        Said("assistant", ("g1",), ("Let me look.",), ("call-1",), ("Plan", "List first")),
        Said("tool", ("g1",), ("a.txt",), ("call-1",)),
        Said("assistant", ("g2",), ("One file: a.txt.",)),
        Said("user", ("u3",), ("keep it, print it",)),
        Said("assistant", ("g4",), ("It says hi.",)),
    ]
    assert reading.more_usage["live"] == dict(
        zip(GEMINI_TOKENS, (3840, 43, 3200, 40, 0, 3923), strict=True)
    )
    assert reading.usage == dict(zip(GEMINI_TOKENS, (5190, 48, 4400, 40, 0, 5278), strict=True))
    assert reading.tree == {
        "i1": None,
        "u1": "i1",
        "g1": "u1",
        "g2": "g1",
        "u2": "g2",
        "g3": "u2",
        "u3": "g2",
        "g4": "u3",
    }
    assert read_gemini(lines[:10]).model == "gemini-3-pro"


def test_gemini_replaced_list() -> None:
    lines = lines_in(CHATS / "session-2026-11-03T11-20-8e4d2b31.jsonl")
    reading = read_gemini(lines)
    assert len(lines) == 6
    assert reading.leaf == "h2"
    # The program falls back to the snapshot; the first prompt of the file is the better title.
    assert (reading.title, reading.stated_title) == ("long talk", None)
    assert reading.model == "gemini-3-pro"
    assert list(reading.context) == [
        Said("user", ("k1",), ("<state_snapshot>talked long</state_snapshot>",)),
        Said("assistant", ("k2",), ("Got it. Thanks for the additional context!",)),
        Said("user", ("v2",), ("go on",)),
        Said("assistant", ("h2",), ("Going on.",)),
    ]
    assert reading.more_usage["live"] == dict(
        zip(GEMINI_TOKENS, (700, 6, 0, 0, 0, 706), strict=True)
    )
    assert reading.usage == dict(zip(GEMINI_TOKENS, (5700, 406, 0, 0, 0, 6106), strict=True))
    assert reading.tree["v2"] == "k2"
