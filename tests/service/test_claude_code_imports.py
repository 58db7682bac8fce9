"""Sessions of Claude Code become native sessions with the context that the agent would go on with."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from sessiond.testing.daemon import Refusal
from tests.kit.agents import SAMPLES, claude_line, context_of, copied, read_lines, write_lines
from tests.kit.house import House

U = "c1a0de00-0000-4000-8000-0000000000"
SUMMARY = "This session is being continued from a previous conversation. Summary: "
SUBAGENT = SAMPLES / "claude-subagent" / "5e55a1d0-0000-4000-8000-000000000001" / "subagents"


async def test_a_compaction_keeps_messages_and_what_follows_stands_below_it(
    real_house: House,
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        answer = await copied(wire, SAMPLES / "claude-branch-compact.jsonl")
        session = answer["session"]
        assert answer["report"]["format"] == "claude-code"
        assert (answer["report"]["dropped"], answer["report"]["problem_count"]) == (0, 0)
        assert session["auto_title"] == "Add ping command"
        assert (session["cwd"], session["dialect"]) == ("/home/ann/ping", "native")
        assert session["agent"] == "claude-code"
        listed = (await wire.call("session/list", agent="claude-code"))["sessions"]
        assert [one["id"] for one in listed] == [session["id"]]
        assert session["leaf_id"] == f"{U}13"
        assert session["lineage"]["header_id"] == "5e55a1d0-0000-4000-8000-000000000001"
        assert session["created_at"] == "2026-11-01T09:00:00.000Z"
        usage = session["usage"]
        assert (usage["input_tokens"], usage["output_tokens"]) == (107, 205)
        assert (usage["cache_write_tokens"], usage["cache_read_tokens"]) == (1570, 3200)
        assert await context_of(wire, session["id"]) == [
            f"summary: {SUMMARY}ping was added, then made smaller.",
            "user: make it smaller",
            "assistant: It is smaller now.",
            "user: now add a test",
            "assistant: Test added.",
        ]
        calls = 'Bash toolu_01 {"command": "ls", "description": "List files"}'
        before = [
            "user: add a ping command",
            f"assistant: thinking + {calls}",
            "result of Bash toolu_01: main.rs",
            "assistant: Added ping to main.rs.",
        ]
        # One answer of two lines is one entry. The abandoned branch is there too.
        assert await context_of(wire, session["id"], entry_id=f"{U}09") == [
            *before,
            "user: make it smaller",
            "assistant: It is smaller now.",
        ]
        assert await context_of(wire, session["id"], entry_id=f"{U}07") == [
            *before,
            "user: make it faster",
            "assistant: It is faster now.",
        ]


async def test_a_rewind_moves_the_leaf_and_parallel_results_stay_together(
    real_house: House,
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        session = (await copied(wire, SAMPLES / "claude-parallel-rewind.jsonl"))["session"]
        assert (session["title"], session["leaf_id"]) == ("two files", f"{U}26")
        usage = session["usage"]
        assert (usage["input_tokens"], usage["output_tokens"]) == (33, 170)
        calls = " + ".join(
            f'Read toolu_2{n} {{"file_path": "/home/ann/ping/{name}.txt"}}'
            for n, name in ((1, "a"), (2, "b"))
        )
        before = [
            "user: read both files",
            f"assistant: {calls}",
            "result of Read toolu_21: alpha",
            "result of Read toolu_22 failed: no such file",
            "assistant: a.txt says alpha; b.txt is missing.",
        ]
        assert await context_of(wire, session["id"]) == before
        assert await context_of(wire, session["id"], entry_id=f"{U}28") == [
            *before,
            "user: create b.txt",
            "assistant: Created b.txt.",
        ]


async def test_kept_messages_come_before_a_prompt_below_the_summary(real_house: House) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        answer = await copied(wire, SAMPLES / "claude-anchor-child-torn.jsonl")
        assert answer["session"]["leaf_id"] == f"{U}37"
        assert answer["session"]["first_message"] == "what is 2+2"
        (problem,) = answer["report"]["problems"]
        assert (problem["line"], problem["kind"]) == (8, "torn_tail")
        assert answer["report"]["dropped"] == 1
        assert await context_of(wire, answer["session"]["id"]) == [
            f"summary: {SUMMARY}sums.",
            "user: and 3+3",
            "assistant: 6",
            "user: and 4+4",
        ]


async def test_a_subagent_is_a_session_with_the_title_beside_its_file(
    real_house: House, tmp_path: Path
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        (path,) = SUBAGENT.glob("*.jsonl")
        session = (await copied(wire, path))["session"]
        assert session["auto_title"] == "Find main.rs"
        assert session["leaf_id"] == f"{U}44"
        assert (session["usage"]["input_tokens"], session["usage"]["output_tokens"]) == (11, 28)
        assert len(await context_of(wire, session["id"])) == 4
        # A title that the agent made counts before the description.
        shutil.copy(path.with_suffix(".meta.json"), tmp_path)
        titled = tmp_path / path.name
        write_lines(titled, [*read_lines(path), {"type": "ai-title", "aiTitle": "Mine"}])
        session = (await copied(wire, titled))["session"]
        assert session["auto_title"] == "Mine"


@pytest.mark.parametrize("shape", ["openai", "anthropic"])
async def test_the_context_of_a_copy_is_ready_for_each_api(real_house: House, shape: str) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        session = (await copied(wire, SAMPLES / "claude-parallel-rewind.jsonl"))["session"]
        built = await wire.call("build_context", session_id=session["id"], shape=shape, repair=True)
        text = json.dumps(built["messages"])
        assert text.count("toolu_21") == text.count("toolu_22") == 2
        roles = [message["role"] for message in built["messages"]]
        assert (
            roles
            == {
                "openai": ["user", "assistant", "tool", "tool", "assistant"],
                "anthropic": ["user", "assistant", "user", "assistant"],
            }[shape]
        )


# -- files that the samples do not show -----------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a session of Claude Code."""
    return tmp_path / "projects" / "-p" / "5e55a1d0-0000-4000-8000-0000000000aa.jsonl"


async def test_an_old_summary_is_a_title_and_newer_titles_win(
    real_house: House, path: Path
) -> None:
    lines: list[Any] = [
        {"type": "summary", "summary": "Old words", "leafUuid": "u-9"},
        claude_line(1, None, "hi"),
        claude_line(2, 1, "hello", "assistant"),
    ]
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        session = (await copied(wire, write_lines(path, lines)))["session"]
        assert (session["title"], session["auto_title"]) == ("Old words", "Old words")
        lines += [
            {"type": "custom-title", "customTitle": "Mine", "sessionId": "s"},
            {"type": "ai-title", "aiTitle": "Made", "sessionId": "s"},
            {"type": "tag", "tag": "work", "sessionId": "s"},
        ]
        session = (await copied(wire, write_lines(path, lines)))["session"]
        assert (session["title"], session["auto_title"]) == ("Mine", "Made")
        assert session["tags"] == ["work"]


async def test_the_path_goes_on_before_a_missing_line_which_is_reported(
    real_house: House, path: Path
) -> None:
    lines = [
        claude_line(1, None, "hi"),
        claude_line(2, 1, "hello", "assistant"),
        claude_line(5, 4, "on"),
    ]
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        answer = await copied(wire, write_lines(path, lines))
        (problem,) = answer["report"]["problems"]
        assert (problem["line"], problem["kind"]) == (3, "orphan")
        assert answer["report"]["dropped"] == 0
        assert await context_of(wire, answer["session"]["id"]) == [
            "user: hi",
            "assistant: hello",
            "user: on",
        ]


async def test_a_circle_of_parents_ends(real_house: House, path: Path) -> None:
    lines = [claude_line(1, 2, "hi"), claude_line(2, 1, "hello", "assistant")]
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        answer = await copied(wire, write_lines(path, lines))
        assert await context_of(wire, answer["session"]["id"]) == ["user: hi", "assistant: hello"]


async def test_a_line_that_is_written_again_is_there_once(real_house: House, path: Path) -> None:
    lines = [
        claude_line(1, None, "hi"),
        claude_line(2, 1, "hello", "assistant"),
        claude_line(3, 2, "on"),
        claude_line(1, None, "hi"),
    ]
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        answer = await copied(wire, write_lines(path, lines))
        assert await context_of(wire, answer["session"]["id"]) == [
            "user: hi",
            "assistant: hello",
            "user: on",
        ]
        (problem,) = answer["report"]["problems"]
        assert problem == {
            "line": 4,
            "kind": "not_copied",
            "detail": "left out: lines of type copy (user), 1 in all",
        }


async def test_a_prompt_that_was_queued_is_a_message(real_house: House, path: Path) -> None:
    queued = claude_line(3, 2, "")
    queued |= {"type": "attachment", "attachment": {"type": "queued_command", "prompt": "stop"}}
    other = claude_line(4, 3, "")
    other |= {"type": "attachment", "attachment": {"type": "file", "content": "text"}}
    for line in (queued, other):
        del line["message"]
    lines = [
        claude_line(1, None, "hi"),
        claude_line(2, 1, "hello", "assistant"),
        queued,
        other,
        claude_line(5, 4, "done", "assistant"),
    ]
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        answer = await copied(wire, write_lines(path, lines))
        assert await context_of(wire, answer["session"]["id"]) == [
            "user: hi",
            "assistant: hello",
            "user: stop",
            "assistant: done",
        ]
        (problem,) = answer["report"]["problems"]
        assert problem == {
            "line": 4,
            "kind": "not_copied",
            "detail": "left out: lines of type attachment (file), 1 in all",
        }


async def test_words_beside_a_result_come_behind_the_result(real_house: House, path: Path) -> None:
    call = claude_line(2, 1, "", "assistant")
    call["message"]["content"] = [{"type": "tool_use", "id": "t1", "name": "Read", "input": {}}]
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "alpha"}
    answer = claude_line(3, 2, "")
    answer["message"]["content"] = [result, {"type": "text", "text": "and stop"}]
    lines = [claude_line(1, None, "hi"), call, answer, claude_line(4, 3, "done", "assistant")]
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        session = (await copied(wire, write_lines(path, lines)))["session"]
        assert await context_of(wire, session["id"]) == [
            "user: hi",
            "assistant: Read t1 {}",
            "result of Read t1: alpha",
            "user: and stop",
            "assistant: done",
        ]


async def test_images_come_with_the_words_beside_them(real_house: House, path: Path) -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    line = claude_line(1, None, "")
    line["message"]["content"] = [
        {"type": "text", "text": "see"},
        {"type": "image", "source": source},
    ]
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        session = (await copied(wire, write_lines(path, [line])))["session"]
        built = await wire.call("build_context", session_id=session["id"], shape="anthropic")
        assert built["messages"][0]["content"][1] == {"type": "image", "source": source}


async def test_an_explicit_pin_on_nothing_is_an_empty_context(
    real_house: House, path: Path
) -> None:
    pin = {"type": "last-prompt", "leafUuid": None, "explicit": True, "sessionId": "s"}
    lines = [claude_line(1, None, "hi"), pin]
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        session = (await copied(wire, write_lines(path, lines)))["session"]
        assert session["leaf_id"] is None
        # A message behind the pin is what the agent goes on with.
        lines.append(claude_line(2, 1, "hello", "assistant"))
        session = (await copied(wire, write_lines(path, lines)))["session"]
        assert session["leaf_id"] == "u-2"


async def test_lines_of_subagents_are_no_part_of_the_conversation(
    real_house: House, path: Path
) -> None:
    lines = [
        claude_line(1, None, "hi"),
        claude_line(2, None, "search", isSidechain=True),
        claude_line(3, 2, "found", "assistant", isSidechain=True),
        claude_line(4, 1, "hello", "assistant"),
    ]
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        answer = await copied(wire, write_lines(path, lines))
        assert await context_of(wire, answer["session"]["id"]) == ["user: hi", "assistant: hello"]
        (problem,) = answer["report"]["problems"]
        assert problem["detail"] == "left out: lines of type subagents, 2 in all"
        assert answer["report"]["dropped"] == 2


async def test_a_compaction_that_keeps_parts_has_their_messages(
    real_house: House, path: Path
) -> None:
    boundary = claude_line(5, None, "")
    del boundary["message"]
    boundary |= {"type": "system", "subtype": "compact_boundary", "logicalParentUuid": "u-4"}
    kept = {"anchorUuid": "u-6", "uuids": ["u-1", "u-4", "u-77"]}
    boundary["compactMetadata"] = {"trigger": "auto", "preTokens": 500, "preservedMessages": kept}
    lines = [
        claude_line(1, None, "a"),
        claude_line(2, 1, "b", "assistant"),
        claude_line(3, 2, "c"),
        claude_line(4, 3, "d", "assistant"),
        boundary,
        claude_line(6, 5, "the summary", isCompactSummary=True),
        claude_line(7, 4, "e"),
    ]
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        answer = await copied(wire, write_lines(path, lines))
        assert await context_of(wire, answer["session"]["id"]) == [
            "user: the summary",
            "user: a",
            "assistant: d",
            "user: e",
        ]
        (problem,) = answer["report"]["problems"]
        assert (problem["line"], problem["kind"]) == (6, "orphan")
        # A line below the boundary stands below the summary.
        note = claude_line(8, 5, "")
        del note["message"]
        note |= {"type": "attachment", "attachment": {"type": "file"}}
        lines[-1:] = [note, claude_line(7, 8, "e")]
        session = (await copied(wire, write_lines(path, lines)))["session"]
        assert len(await context_of(wire, session["id"])) == 4
        # Without kept messages the summary stands alone.
        boundary["compactMetadata"] = {"trigger": "auto"}
        lines[-1] = claude_line(7, 6, "e")
        session = (await copied(wire, write_lines(path, lines)))["session"]
        assert await context_of(wire, session["id"]) == ["summary: the summary", "user: e"]


async def test_a_result_behind_a_compaction_stands_below_it(real_house: House, path: Path) -> None:
    call = claude_line(4, 3, "", "assistant")
    call["message"]["content"] = [{"type": "tool_use", "id": "t1", "name": "Read", "input": {}}]
    boundary = claude_line(5, None, "")
    del boundary["message"]
    kept = {"headUuid": "u-3", "anchorUuid": "u-6", "tailUuid": "u-4"}
    boundary |= {"type": "system", "subtype": "compact_boundary"}
    boundary["compactMetadata"] = {"trigger": "auto", "preservedSegment": kept}
    result = claude_line(7, 4, "")
    result["message"]["content"] = [{"type": "tool_result", "tool_use_id": "t1", "content": "x"}]
    lines = [
        claude_line(1, None, "a"),
        claude_line(2, 1, "b", "assistant"),
        claude_line(3, 2, "c"),
        call,
        boundary,
        claude_line(6, 5, "the summary", isCompactSummary=True),
        result,
        claude_line(8, 7, "done", "assistant"),
    ]
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        session = (await copied(wire, write_lines(path, lines)))["session"]
        assert await context_of(wire, session["id"]) == [
            "summary: the summary",
            "user: c",
            "assistant: Read t1 {}",
            "result of Read t1: x",
            "assistant: done",
        ]


async def test_bad_lines_are_named_and_the_rest_is_copied(real_house: House, path: Path) -> None:
    lines: list[Any] = [
        b"{half",
        claude_line(1, None, "hi"),
        b"\xff\xfe",
        {"type": "mode", "mode": "plan", "sessionId": "s"},
        {"type": "mode", "mode": "normal", "sessionId": "s"},
        claude_line(2, 1, "hello", "assistant"),
    ]
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        answer = await copied(wire, write_lines(path, lines))
        report = answer["report"]
        assert [(one["line"], one["kind"]) for one in report["problems"]] == [
            (1, "bad_line"),
            (3, "bad_line"),
            (4, "not_copied"),
        ]
        assert (report["dropped"], report["problem_count"]) == (4, 3)
        assert await context_of(wire, answer["session"]["id"]) == ["user: hi", "assistant: hello"]


async def test_a_file_of_another_format_than_wanted_is_refused(
    real_house: House, path: Path
) -> None:
    write_lines(path, [claude_line(1, None, "hi")])
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        with pytest.raises(Refusal) as refused:
            await copied(wire, path, format="codex")
        assert refused.value.message == "the file is in format claude-code"
        with pytest.raises(Refusal) as refused:
            await copied(wire, write_lines(path, [claude_line(1, None, "hi", message=None)]))
        assert refused.value.data["kind"] == "session_corrupt"
        assert "no line of this claude-code file says anything" in refused.value.message


async def test_a_second_import_of_a_session_knows_the_first(real_house: House) -> None:
    path = SAMPLES / "claude-branch-compact.jsonl"
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        first = (await copied(wire, path))["session"]["id"]
        again = await copied(wire, path, if_exists="skip")
        assert (again["imported"], again["twins"]) == (False, [first])
