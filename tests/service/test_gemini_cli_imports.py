"""Sessions of Gemini CLI become native sessions with the context that the agent would go on with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.kit.agents import CHATS, context_of, copied, read_lines, write_lines
from tests.kit.house import House

HEAD = {
    "sessionId": "7d3c1a20-0000-4000-8000-0000000000aa",
    "projectHash": "6f92",
    "startTime": "2026-01-15T10:00:00.000Z",
    "lastUpdated": "2026-01-15T10:00:00.000Z",
    "kind": "main",
}


def user(message_id: str, text: str) -> Any:
    """Return a message of the user."""
    time = "2026-01-15T10:00:00.000Z"
    return {"id": message_id, "timestamp": time, "type": "user", "content": [{"text": text}]}


def model(message_id: str, text: str, **more: Any) -> Any:
    """Return a message of the model."""
    time = "2026-01-15T10:00:00.000Z"
    return {"id": message_id, "timestamp": time, "type": "gemini", "content": text, **more}


async def test_messages_count_in_their_last_version_and_a_rewind_is_a_branch(
    real_house: House,
) -> None:
    (path,) = CHATS.glob("*7d3c1a20.jsonl")
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        answer = await copied(wire, path)
        session = answer["session"]
        assert answer["report"]["format"] == "gemini-cli"
        assert (session["title"], session["leaf_id"]) == ("Look at a.txt", "g4")
        # The project is named in a file beside.
        assert (session["cwd"], session["model"]) == ("/home/ann/notes", "gemini-3-flash")
        usage = session["usage"]
        assert (usage["total_tokens"], usage["cache_read_tokens"]) == (5278, 4400)
        assert (usage["input_tokens"], usage["output_tokens"]) == (5190 - 4400, 48 + 40)
        call = 'list_directory call-1 {"dir_path": "."}'
        begun = [
            "user: what is here?",
            f"assistant: thinking Plan\nList first + Let me look. + {call}",
            "result of list_directory call-1: a.txt",
            "assistant: One file: a.txt.",
        ]
        assert await context_of(wire, session["id"]) == [
            *begun,
            "user: keep it, print it",
            "assistant: It says hi.",
        ]
        assert await context_of(wire, session["id"], entry_id="g3") == [
            *begun,
            "user: delete it",
            "assistant: Deleted.",
        ]
        (problem,) = answer["report"]["problems"]
        assert problem["detail"] == "left out: messages of type info, 1 in all"


async def test_a_replaced_list_is_a_compaction(real_house: House) -> None:
    (path,) = CHATS.glob("*8e4d2b31.jsonl")
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        session = (await copied(wire, path))["session"]
        assert (session["title"], session["first_message"]) == (None, "long talk")
        assert session["usage"]["total_tokens"] == 6106
        assert await context_of(wire, session["id"]) == [
            "user: <state_snapshot>talked long</state_snapshot>",
            "assistant: Got it. Thanks for the additional context!",
            "user: go on",
            "assistant: Going on.",
        ]


async def test_a_list_that_only_became_shorter_is_a_rewind(
    real_house: House, tmp_path: Path
) -> None:
    shorter = {"$set": {"messages": [user("u1", "one"), model("g1", "first")]}}
    lines = [
        HEAD,
        user("u1", "one"),
        model("g1", "first"),
        user("u2", "two"),
        shorter,
        user("u3", "three"),
    ]
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        session = (await copied(wire, write_lines(tmp_path / "s.jsonl", lines)))["session"]
        shown = ["user: one", "assistant: first", "user: three"]
        assert await context_of(wire, session["id"]) == shown
        assert session["entry_count"] == 4
        # A message of a replaced list may be written again.
        shorter["$set"]["messages"] = [user("k1", "summary"), model("k2", "so")]
        lines.insert(5, model("k2", "so be it"))
        session = (await copied(wire, write_lines(tmp_path / "s.jsonl", lines)))["session"]
        shown = ["user: summary", "assistant: so be it", "user: three"]
        assert await context_of(wire, session["id"]) == shown


async def test_a_rewind_into_a_replaced_list_cuts_the_list(
    real_house: House, tmp_path: Path
) -> None:
    replaced = [user("k1", "summary"), model("k2", "so"), user("k3", "then")]
    lines = [
        HEAD,
        user("u1", "one"),
        {"$set": {"messages": replaced}},
        {"$rewindTo": "k3"},
        user("u2", "two"),
    ]
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        session = (await copied(wire, write_lines(tmp_path / "s.jsonl", lines)))["session"]
        shown = ["user: summary", "assistant: so", "user: two"]
        assert await context_of(wire, session["id"]) == shown
        lines[3] = {"$rewindTo": "k1"}
        session = (await copied(wire, write_lines(tmp_path / "s.jsonl", lines)))["session"]
        assert await context_of(wire, session["id"]) == ["user: two"]


async def test_a_rewind_to_an_unknown_message_removes_all(
    real_house: House, tmp_path: Path
) -> None:
    first = model("g1", "first")
    # A line that repeats a message is not missing in the copy.
    lines = [HEAD, user("u1", "one"), first, first, {"$rewindTo": "nothing"}]
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        answer = await copied(wire, write_lines(tmp_path / "s.jsonl", lines))
        session = answer["session"]
        assert answer["report"]["problems"] == []
        assert session["leaf_id"] is None
        lines.append(user("u2", "two"))
        session = (await copied(wire, write_lines(tmp_path / "s.jsonl", lines)))["session"]
        assert await context_of(wire, session["id"]) == ["user: two"]


async def test_what_the_program_asks_itself_is_not_in_the_context(
    real_house: House, tmp_path: Path
) -> None:
    own = ["/help", "?", "<session_context>x", "<hook_context>x", " "]
    asked = [user(f"c{at}", text) for at, text in enumerate(own)]
    lines = [HEAD, *asked, user("u1", "one"), model("g1", "", toolCalls=[{"id": "t", "name": "n"}])]
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        answer = await copied(wire, write_lines(tmp_path / "s.jsonl", lines))
        assert await context_of(wire, answer["session"]["id"]) == [
            "user: one",
            "assistant: n t {}",
            "result of n t: ",
        ]
        (problem,) = answer["report"]["problems"]
        assert problem["detail"] == f"left out: messages of type user, {len(own)} in all"


async def test_a_document_of_an_older_version_is_read(real_house: House, tmp_path: Path) -> None:
    document = HEAD | {"messages": [user("u1", "one"), model("g1", "first\nsecond")]}
    path = tmp_path / "session-old.json"
    path.write_text(json.dumps(document, indent=2))
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        answer = await copied(wire, path)
        assert answer["report"]["format"] == "gemini-cli"
        shown = ["user: one", "assistant: first\nsecond"]
        assert await context_of(wire, answer["session"]["id"]) == shown


async def test_a_subagents_file_is_a_session_of_its_own(real_house: House, tmp_path: Path) -> None:
    (sample,) = CHATS.glob("*8e4d2b31.jsonl")
    lines = read_lines(sample)
    lines[0]["kind"] = "subagent"
    path = write_lines(tmp_path / "chats" / lines[0]["sessionId"] / "sub-1.jsonl", lines)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        session = (await copied(wire, path))["session"]
        assert len(await context_of(wire, session["id"])) == 4
