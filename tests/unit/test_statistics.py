"""Statistics of a session: what its entries say, for the whole session and for one path."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sessiond.limits import COMPACTIONS_SHOWN_MAX, STATISTICS_NAMES_BYTES_MAX
from sessiond.model.usage import Usage
from sessiond.rpc.progress import NO_PROGRESS
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.statistics import SessionFigures, statistics
from sessiond.session.compaction.policy import PRESETS
from sessiond.session.tree import count_leaves
from tests.kit.documents import native
from tests.kit.in_memory import Counted, opened_lines
from tests.kit.sessions import stored_entry, stored_message, tool_use

SAMPLES = Path(__file__).parent.parent / "samples"
FILES = sorted(SAMPLES.glob("*/*.jsonl"))


def figures(session: OpenSession, leaf: str | None = None) -> tuple[SessionFigures, SessionFigures]:
    index = session.session
    at = index.heads["main"].leaf if leaf is None else index.ids[leaf]
    return statistics(session, at, index.seq, PRESETS["pi"].files, NO_PROGRESS)


def test_messages_calls_usage_and_files_are_counted_for_the_session_and_for_the_path() -> None:
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15, "cost": 0.5}
    result = {"role": "tool", "content": "no", "tool_call_id": "call-read", "is_error": True}
    session = native(
        stored_message("u1", None),
        stored_entry(
            "message",
            "a1",
            "u1",
            message={
                "role": "assistant",
                "content": [
                    tool_use("call-read", "read", path="b.py"),
                    tool_use("call-write", "write", path="a.py"),
                ],
                "usage": usage,
            },
        ),
        stored_entry("message", "t1", "a1", message=result),
        stored_entry(
            "message",
            "a2",
            "u1",
            message={
                "role": "assistant",
                "content": [
                    tool_use("call-edit", "edit", path="b.py"),
                    tool_use("call-read", "read", path="/c"),
                ],
                "usage": usage,
            },
        ),
        stored_entry("label", "l1", "a2", target_id="u1", label="x"),
        stored_entry("custom", "c1", "a2", custom_type="x", data={}),
    )
    whole, path = figures(session)
    assert msgspec.to_builtins(whole.messages) == {
        "user": 1,
        "assistant": 2,
        "tool": 1,
        "other": 0,
        "total": 4,
    }
    assert (whole.entries, path.entries) == (6, 3)
    assert (whole.tool_calls, whole.tool_errors, path.tool_calls, path.tool_errors) == (4, 1, 2, 0)
    calls = {tool.name: tool.calls for tool in whole.tools}
    assert (whole.tools[0].name, calls) == ("read", {"read": 2, "write": 1, "edit": 1})
    # b.py was read on one branch and changed on the other.
    assert (whole.files.read, whole.files.modified) == (["/c"], ["a.py", "b.py"])
    assert (path.files.read, path.files.modified) == (["/c"], ["b.py"])
    assert whole.usage == Usage(20, 10, 0, 0, 30, 1.0)
    assert path.usage == Usage(10, 5, 0, 0, 15, 0.5)
    assert count_leaves(session.session, session.session.seq) == 2


def test_compactions_show_what_they_freed_and_the_files_they_carry() -> None:
    def compaction(entry_id: str, parent_id: str, **fields: Any) -> dict[str, Any]:
        return stored_entry("compaction", entry_id, parent_id, summary="s", **fields)

    details = {"read_files": ["old.py"], "modified_files": ["new.py"]}
    session = native(
        stored_message("u1", None),
        compaction("k1", "u1", tokens_before=100, tokens_after=40, details=details),
        compaction("k2", "k1", tokens_before=70),
        compaction("k3", "k2", tokens_before="many", tokens_after=-4),
    )
    whole, path = figures(session, "k2")
    assert (whole.compactions.count, path.compactions.count) == (3, 2)
    found = whole.compactions
    assert (found.tokens_before, found.tokens_after, found.tokens_freed) == (170, 40, 60)
    shown = [(one.entry_id, one.tokens_before, one.tokens_after) for one in found.newest]
    assert shown == [("k1", 100, 40), ("k2", 70, None), ("k3", None, None)]
    assert (whole.files.read, whole.files.modified) == (["old.py"], ["new.py"])


def test_the_times_are_those_of_the_oldest_and_the_newest_entry() -> None:
    def at(entry_id: str, parent_id: str | None, time: str) -> dict[str, Any]:
        return stored_message(entry_id, parent_id) | {"timestamp": time}

    first, later, last = (f"2026-01-15T10:30:0{n}.000Z" for n in range(3))
    session = native(at("u1", None, later), at("u2", "u1", first), at("u3", "u1", last))
    whole, path = figures(session, "u2")
    assert (whole.first_at, whole.last_at) == (first, last)
    assert (path.first_at, path.last_at) == (first, later)


def test_an_empty_session_has_figures() -> None:
    whole, path = figures(native())
    assert whole == path
    assert (whole.entries, whole.first_at, whole.usage) == (0, None, Usage())


def test_lists_of_names_end_and_say_so() -> None:
    long = "x" * 4000
    many = STATISTICS_NAMES_BYTES_MAX // 4000 + 3
    session = native(
        stored_entry(
            "message",
            "a1",
            None,
            message={
                "role": "assistant",
                "content": [tool_use("call-read", "read", path=f"{n}{long}") for n in range(many)],
            },
        )
    )
    whole, _ = figures(session)
    assert whole.files.more
    assert sum(map(len, whole.files.read)) <= STATISTICS_NAMES_BYTES_MAX
    assert len(whole.files.read) == STATISTICS_NAMES_BYTES_MAX // 4003
    entries = [
        stored_entry("compaction", f"k{n}", f"k{n - 1}" if n else None, summary="s")
        for n in range(COMPACTIONS_SHOWN_MAX + 5)
    ]
    found = figures(native(*entries))[0].compactions
    assert (found.count, len(found.newest)) == (COMPACTIONS_SHOWN_MAX + 5, COMPACTIONS_SHOWN_MAX)
    assert found.newest[-1].entry_id == f"k{COMPACTIONS_SHOWN_MAX + 4}"


def test_names_that_no_answer_could_hold_are_answered() -> None:
    half = json.loads('"\\ud83d"')
    session = native(
        stored_entry(
            "message",
            "a1",
            None,
            message={
                "role": "assistant",
                "content": [
                    tool_use(f"call-{half}", half, path=half),
                    tool_use("call-read", "read", path=half),
                    tool_use("call-", "", path=""),
                    tool_use("call-x", "x", path=[1]),
                ],
            },
        )
    )
    whole, _ = figures(session)
    assert msgspec.json.encode(whole)
    assert whole.tool_calls == 4
    assert whole.files.read == ["\ufffd"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_figures_agree_with_the_index_in_every_dialect(path: Path) -> None:
    lines = path.read_bytes().rstrip(b"\n").split(b"\n")
    session = opened_lines(lines)
    whole, _ = figures(session)
    index = session.session
    assert whole.usage == (index.usage or Usage())
    assert (whole.messages.total, whole.entries) == (index.message_total, index.entry_count)
    assert whole.last_at == (index.updated_at or None)
    assert isinstance(session.journal, Counted)
    assert session.journal.read_lines == index.entry_count
