"""A compaction's file lists reach the model, and the summary stays stored as it was sent."""

from __future__ import annotations

from typing import Any

import pytest

from sessiond.testing.wire import Wire
from tests.kit.calls import append, append_all, create_to_compact, create_with
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
PI = (
    b'{"type":"session","version":3,"id":"%s","timestamp":"2026-01-15T10:30:00.000Z","cwd":"/p"}\n'
    % SESSION.encode()
)


async def compacted(wire: Wire, **more: Any) -> str:
    sent = {"summary": SUMMARY, "first_kept_entry_id": "n2", "details": DETAILS, **more}
    answer = await wire.call("compact", session_id=SESSION, **sent)
    return str(answer["entry"]["id"])


async def stored(wire: Wire, entry_id: str) -> Any:
    return (await wire.call("session/entry", session_id=SESSION, entry_id=entry_id))["entry"]


async def shown(wire: Wire, **more: Any) -> Any:
    return await wire.call("build_context", session_id=SESSION, **more)


def touching(entry_id: str, tool: str, path: str) -> dict[str, Any]:
    call = {"type": "toolCall", "id": f"call-{entry_id}", "name": tool, "arguments": {"path": path}}
    message = {"role": "assistant", "content": [call]}
    return {"type": "message", "id": entry_id, "message": message}


@pytest.mark.parametrize("preset", LISTS)
async def test_the_lists_stand_behind_the_summary_as_the_preset_spells_them(
    house: House, preset: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", "n2", compaction={"preset": preset})
        at = await compacted(wire)
        told = await shown(wire)
        assert told["messages"][0]["summary"] == SUMMARY + LISTS[preset]
        assert told["messages"][0]["details"] == DETAILS
        assert told["sources"] == [at, "n2"]
        line = await stored(wire, at)
        assert (line["summary"], line["details"]) == (SUMMARY, DETAILS)
        openai = (await shown(wire, shape="openai"))["messages"][0]
        anthropic = (await shown(wire, shape="anthropic"))["messages"][0]
        for text in (openai["content"], anthropic["content"]):
            assert LISTS[preset] in str(text if isinstance(text, str) else text[0]["text"])
        live = told, openai, anthropic
    async with house.daemon() as daemon, daemon.connect() as wire:
        again = await shown(wire)
        assert (again["messages"], again["etag"]) == (live[0]["messages"], live[0]["etag"])


async def test_the_lists_count_among_the_tokens(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", "n2")
        await compacted(wire, details={})
        bare = (await shown(wire))["tokens"]
        await wire.call("branch", session_id=SESSION, entry_id="n2")
        await compacted(wire)
        listed = await shown(wire)
        assert listed["tokens"] >= bare + len(TAGGED) // 4
        usage = await wire.call("session/usage", session_id=SESSION)
        assert usage["tokens"] == listed["tokens"]


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
        await compacted(wire, details=details, summary=summary)
        assert (await shown(wire))["messages"][0]["summary"] == summary


async def test_only_one_list_is_shown_where_there_is_one(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", "n2", compaction={"preset": "sharur"})
        await compacted(wire, details={"modified_files": ["x"]})
        said = (await shown(wire))["messages"][0]["summary"]
        assert said == f"{SUMMARY}\n\n### File Activity\n- Modified: x\n"


async def test_a_context_stays_what_it_is_when_the_preset_is_changed_behind_its_compaction(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", "n2", compaction={"preset": "operator"})
        await wire.call("session/update", session_id=SESSION, compaction={"preset": "sharur"})
        await wire.call("session/update", session_id=SESSION, title="no word of compaction")
        await compacted(wire)
        before = await shown(wire)
        assert before["messages"][0]["summary"] == SUMMARY + ACTIVITY
        await wire.call("session/update", session_id=SESSION, compaction={"preset": "pi"})
        await wire.call("session/update", session_id=SESSION, compaction=None)
        await append(wire, "n3")
        known = {"leaf_id": before["leaf_id"], "count": 2}
        grown = await shown(wire, known=known)
        assert (grown["unchanged"], len(grown["messages"])) == (2, 1)
        held = before["messages"] + grown["messages"]
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert (await shown(wire))["messages"] == held


async def test_a_session_whose_settings_only_the_header_tells_keeps_them_for_old_compactions(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", "n2", compaction={"preset": "sharur"})
        await compacted(wire)
        await wire.call("session/update", session_id=SESSION, compaction={"preset": "pi"})
        assert (await shown(wire))["messages"][0]["summary"] == SUMMARY + ACTIVITY


async def test_a_summary_that_the_daemon_had_written_is_stored_as_it_came(house: House) -> None:
    command = Command(SUMMARY)
    async with serving(house, command) as daemon, daemon.connect() as wire:
        await create_to_compact(wire, "n1")
        await append_all(wire, touching("t1", "read", "r.py"), touching("t2", "edit", "m.py"))
        await append(wire, "n2")
        answer = await wire.call("compact", session_id=SESSION)
        line = await stored(wire, answer["entry"]["id"])
        assert line["summary"] == SUMMARY
        assert line["details"] == {"read_files": ["r.py"], "modified_files": ["m.py"]}
        lists = "\n\n<read-files>\nr.py\n</read-files>\n\n<modified-files>\nm.py\n</modified-files>"
        assert (await shown(wire))["messages"][0]["summary"] == SUMMARY + lists
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
            said = {"type": "message", "id": name, "message": {**entry(name)["message"], **stamp}}
            await wire.call("append", session_id=SESSION, entry=said)
        details = {"readFiles": ["r.py"], "modifiedFiles": []}
        at = await compacted(wire, details=details, tokens_before=1)
        assert (await stored(wire, at))["summary"] == SUMMARY
        assert (await shown(wire))["messages"][0]["summary"] == SUMMARY
        await wire.call("session/update", session_id=SESSION, title="t")
        for number in range(3):
            text = [{"type": "text", "text": "x" * 60_000}]
            long = {"role": "user", "content": text, **stamp}
            told = {"type": "message", "id": f"long{number}", "message": long}
            await wire.call("append", session_id=SESSION, entry=told)
        answer = await wire.call("compact", session_id=SESSION)
        carried = f"{SUMMARY}\n\n<read-files>\nr.py\n</read-files>"
        assert (await stored(wire, answer["entry"]["id"]))["summary"] == carried
        assert (await shown(wire))["messages"][0]["summary"] == carried
