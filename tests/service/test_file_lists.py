"""A compaction's file lists reach the model, and the summary stays stored as it was sent."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.calls import append, append_message, call, create_to_compact, create_with
from tests.kit.house import House
from tests.kit.sessions import SESSION, entry
from tests.service.compacting import Command, serving

pytestmark = pytest.mark.recommends

DETAILS = {"read_files": ["a b.py", "é.py"], "modified_files": ["<c>.py"]}
TAGGED = (
    "\n\n<read-files>\na b.py\né.py\n</read-files>\n\n<modified-files>\n<c>.py\n</modified-files>"
)
ACTIVITY = "\n\n### File Activity\n- Read: a b.py, é.py\n- Modified: <c>.py\n"
LISTS = {"pi": TAGGED, "operator": TAGGED, "piglet": TAGGED, "sharur": ACTIVITY}
SUMMARY = 'A "clock"\\ ran late. \u2028 😀'
SENT = {"summary": SUMMARY, "first_kept_entry_id": "n2", "details": DETAILS}
PI = (
    b'{"type":"session","version":3,"id":"%s","timestamp":"2026-01-15T10:30:00.000Z","cwd":"/p"}\n'
    % SESSION.encode()
)


@pytest.mark.parametrize("preset", LISTS)
async def test_the_lists_stand_behind_the_summary_as_the_preset_spells_them(
    house: House, preset: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", "n2", compaction={"preset": preset})
        at = await call(wire, "compact", "entry.id", **SENT)
        told = await call(wire, "build_context")
        assert told["messages"][0]["summary"] == SUMMARY + LISTS[preset]
        assert told["messages"][0]["details"] == DETAILS
        assert told["sources"] == [at, "n2"]
        line = await call(wire, "session/entry", "entry", entry_id=at)
        assert (line["summary"], line["details"]) == (SUMMARY, DETAILS)
        openai = (await call(wire, "build_context", "messages", shape="openai"))[0]
        anthropic = (await call(wire, "build_context", "messages", shape="anthropic"))[0]
        for text in (openai["content"], anthropic["content"]):
            assert LISTS[preset] in str(text if isinstance(text, str) else text[0]["text"])
        live = told, openai, anthropic
    async with house.daemon() as daemon, daemon.connect() as wire:
        again = await call(wire, "build_context")
        assert (again["messages"], again["etag"]) == (live[0]["messages"], live[0]["etag"])


async def test_the_lists_count_among_the_tokens(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", "n2")
        await call(wire, "compact", **SENT | {"details": {}})
        bare = await call(wire, "build_context", "tokens")
        await call(wire, "branch", entry_id="n2")
        await call(wire, "compact", **SENT)
        listed = await call(wire, "build_context")
        assert listed["tokens"] >= bare + len(TAGGED) // 4
        assert await call(wire, "session/usage", "tokens") == listed["tokens"]


@pytest.mark.parametrize(
    ("details", "summary"),
    [
        ({}, SUMMARY),
        ({"read_files": [], "modified_files": []}, SUMMARY),
        ({"read_files": "a", "modified_files": None}, SUMMARY),
        # A summary that ends with its lists already, as summarizers were once asked for.
        (DETAILS, SUMMARY + TAGGED),
    ],
)
async def test_nothing_follows_a_summary_that_has_no_lists_or_has_them_already(
    house: House, details: Any, summary: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", "n2")
        await call(wire, "compact", **SENT | {"details": details, "summary": summary})
        assert (await call(wire, "build_context", "messages"))[0]["summary"] == summary


async def test_only_one_list_is_shown_where_there_is_one(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", "n2", compaction={"preset": "sharur"})
        await call(wire, "compact", **SENT | {"details": {"modified_files": ["x"]}})
        said = (await call(wire, "build_context", "messages"))[0]["summary"]
        assert said == f"{SUMMARY}\n\n### File Activity\n- Modified: x\n"


async def test_a_context_stays_what_it_is_when_the_preset_is_changed_behind_its_compaction(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", "n2", compaction={"preset": "operator"})
        await call(wire, "session/update", compaction={"preset": "sharur"})
        await call(wire, "session/update", title="no word of compaction")
        await call(wire, "compact", **SENT)
        before = await call(wire, "build_context")
        assert before["messages"][0]["summary"] == SUMMARY + ACTIVITY
        await call(wire, "session/update", compaction={"preset": "pi"})
        await call(wire, "session/update", compaction=None)
        await append(wire, "n3")
        known = {"leaf_id": before["leaf_id"], "count": 2}
        grown = await call(wire, "build_context", known=known)
        assert (grown["unchanged"], len(grown["messages"])) == (2, 1)
        held = before["messages"] + grown["messages"]
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await call(wire, "build_context", "messages") == held


async def test_a_session_whose_settings_only_the_header_tells_keeps_them_for_old_compactions(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", "n2", compaction={"preset": "sharur"})
        await call(wire, "compact", **SENT)
        await call(wire, "session/update", compaction={"preset": "pi"})
        assert (await call(wire, "build_context", "messages"))[0]["summary"] == SUMMARY + ACTIVITY


async def test_a_summary_that_the_daemon_had_written_is_stored_as_it_came(house: House) -> None:
    command = Command(SUMMARY)
    async with serving(house, command) as daemon, daemon.connect() as wire:
        await create_to_compact(wire, "n1")
        for touching, tool, path in (("t1", "read", "r.py"), ("t2", "edit", "m.py")):
            block = {"type": "toolCall", "id": f"call-{touching}", "name": tool}
            arguments = {"arguments": {"path": path}}
            await append(wire, touching, [block | arguments], role="assistant")
        await append(wire, "n2")
        at = await call(wire, "compact", "entry.id")
        line = await call(wire, "session/entry", "entry", entry_id=at)
        assert line["summary"] == SUMMARY
        assert line["details"] == {"read_files": ["r.py"], "modified_files": ["m.py"]}
        lists = "\n\n<read-files>\nr.py\n</read-files>\n\n<modified-files>\nm.py\n</modified-files>"
        assert (await call(wire, "build_context", "messages"))[0]["summary"] == SUMMARY + lists
        assert "Do not repeat them" in command.prompts[0]
        assert lists.strip() in command.prompts[0]


async def test_in_a_file_of_pi_only_a_summary_that_the_daemon_had_written_carries_its_lists(
    house: House,
) -> None:
    house.put(PI)
    command = Command(SUMMARY)
    stamp = {"timestamp": 1768473000000}
    async with serving(house, command) as daemon, daemon.connect() as wire:
        for name in ("n1", "n2"):
            await append_message(wire, name, {**entry(name)["message"], **stamp})
        details = {"readFiles": ["r.py"], "modifiedFiles": []}
        sent = SENT | {"details": details, "tokens_before": 1}
        at = await call(wire, "compact", "entry.id", **sent)
        assert await call(wire, "session/entry", "entry.summary", entry_id=at) == SUMMARY
        assert (await call(wire, "build_context", "messages"))[0]["summary"] == SUMMARY
        await call(wire, "session/update", title="t")
        for number in range(3):
            text = [{"type": "text", "text": "x" * 60_000}]
            long = {"role": "user", "content": text, **stamp}
            await append_message(wire, f"long{number}", long)
        at = await call(wire, "compact", "entry.id")
        carried = f"{SUMMARY}\n\n<read-files>\nr.py\n</read-files>"
        assert await call(wire, "session/entry", "entry.summary", entry_id=at) == carried
        assert (await call(wire, "build_context", "messages"))[0]["summary"] == carried
