"""Defects of the programs that sessiond replaces, none of which it has.

Each test is named after its line in section D of the facts about those programs, for what
concerns contexts, compactions, forks, rewinds and resets.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessiond.testing.wire import Wire
from tests.kit.calls import (
    append,
    append_message,
    call,
    create,
    create_to_compact,
    create_with,
    refused,
    say,
    session_info,
)
from tests.kit.house import House
from tests.kit.roots import pi_line
from tests.kit.sessions import SESSION, TIME


async def test_d2_a_branch_at_an_index_ends_there(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "m0", "m1", "m2", "m3", persist="immediate")
        forked = await call(wire, "session/fork", "session.id", at_message=1)
        ids = await call(wire, "session/path", "entries[].entry.id", session_id=forked)
        assert ids == ["m0", "m1"]


async def test_d3_a_fork_without_a_link_has_none(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "m0", persist="immediate")
        forked = await call(wire, "session/fork", "session", link="none")
        assert forked["lineage"] == {"detached": True}
        forest = await wire.call("catalog/forest", scope="all")
        (node,) = [node for node in forest["nodes"] if node["session_id"] == forked["id"]]
        assert (node["depth"], node["parent_id"]) == (0, None)


@pytest.mark.parametrize("entries", ["path", "all", "context", "none"])
async def test_d4_what_was_forked_is_there_after_a_restart(house: House, entries: str) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "m0", "m1", persist="immediate")
        asked = {"entries": entries, "new_session_id": "the-fork"}
        forked = await call(wire, "session/fork", "session", **asked)
        told = await call(wire, "session/entries", "entries", session_id="the-fork")
    async with house.daemon() as daemon, daemon.connect() as wire:
        again = await session_info(wire, "the-fork")
        assert again["lineage"] == forked["lineage"]
        assert await call(wire, "session/entries", "entries", session_id="the-fork") == told
        assert again["message_count"] == (0 if entries == "none" else 2)


async def test_d6_rewound_entries_stay_gone_after_a_restart(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        for entry_id, role in (("u1", "user"), ("a1", "assistant"), ("t1", "toolResult")):
            await append(wire, entry_id, role=role)
        assert await call(wire, "session/rewind", "rewound", to="u1") == ["a1", "t1"]
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await call(wire, "build_context", "sources") == ["u1"]
        # The attempt is off the path, not out of the file.
        stored = await call(wire, "session/entries", "entries[].entry")
        assert [one["id"] for one in stored if "message" in one] == ["u1", "a1", "t1"]
        await append(wire, "a2", role="assistant")
        assert await call(wire, "build_context", "sources") == ["u1", "a2"]


@pytest.mark.parametrize("dialect", ["native", "pi"])
async def test_d7_a_reset_survives_a_restart(house: House, dialect: str) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        session_id = SESSION
        if dialect == "native":
            await create_with(wire, "u1", persist="immediate")
        else:
            session_id = await import_pi(wire, [pi_line("aaaa0001", None, "one")])
        await wire.call("session/reset", session_id=session_id)
        assert await call(wire, "build_context", "sources", session_id=session_id) == []
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await call(wire, "build_context", "sources", session_id=session_id) == []
        await say(wire, "anew", session_id=session_id)
        said = await call(wire, "build_context", "messages[].content", session_id=session_id)
        assert said == ["anew"]


async def test_d8_a_path_over_a_label_keeps_the_whole_context(house: House) -> None:
    place = {"id": "aaaa0003", "parentId": "aaaa0002", "timestamp": TIME}
    entries = [
        pi_line("aaaa0001", None, "one"),
        pi_line("aaaa0002", "aaaa0001", "two"),
        {"type": "label", "targetId": "aaaa0002", "label": "here", **place},
        pi_line("aaaa0004", "aaaa0003", "three"),
    ]
    whole = ["aaaa0001", "aaaa0002", "aaaa0004"]
    async with house.daemon() as daemon, daemon.connect() as wire:
        session_id = await import_pi(wire, entries)
        assert await call(wire, "build_context", "sources", session_id=session_id) == whole
        forked = await call(wire, "session/fork", "session.id", session_id=session_id)
        assert await call(wire, "build_context", "sources", session_id=forked) == whole
        labels = await call(wire, "session/labels", "labels[].{entry_id,label}", session_id=forked)
        assert labels == [("aaaa0002", "here")]


async def test_d10_an_empty_compaction_means_the_same_after_a_restart(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "u1", persist="immediate")
        empty = {"messages": [], "expected": {"leaf_id": "u1"}}
        await call(wire, "compact", **empty)
        assert await call(wire, "build_context", "sources") == []
        await append(wire, "u2")
        assert await call(wire, "build_context", "sources") == ["u2"]
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await call(wire, "build_context", "sources") == ["u2"]


async def test_d11_a_compaction_stores_the_first_entry_kept(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_to_compact(wire, "u1", "u2", persist="immediate")
        plan = await call(wire, "session/plan_compaction", "plan")
        await call(wire, "compact", plan_id=plan["plan_id"], summary="What was.")
        (stored,) = [line for line in house.stored() if line["type"] == "compaction"]
        assert stored["first_kept_entry_id"] == plan["first_kept_entry_id"] == "u2"
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await call(wire, "build_context", "sources") == [stored["id"], "u2"]


async def test_d16_of_two_at_one_leaf_the_second_is_told_the_new_one(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as one, daemon.connect() as two:
        await create_with(one, "u1", persist="immediate")
        expected = {"leaf_id": "u1"}
        await append(one, "a1", expected=expected)
        late = {"message": {"role": "assistant", "content": "late"}, "expected": expected}
        refusal = await refused(two, "append", "{kind,actual.leaf_id}", **late)
        assert refusal == ("precondition_failed", "a1")
        # Who expects nothing goes on from where the other has come to.
        await append(two, "a2")
        assert await call(one, "build_context", "sources") == ["u1", "a1", "a2"]


@pytest.mark.parametrize("keep", [1, 3, 10, 30, 100])
async def test_d23_a_context_after_a_compaction_starts_with_no_tool_result(
    house: House, keep: int
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "u0", persist="immediate")
        result: dict[str, Any] = {}
        for n in range(6):
            asks = {"type": "toolCall", "id": f"c{n}", "name": "ls", "arguments": {"n": n}}
            await append_message(wire, f"a{n}", {"role": "assistant", "content": [asks]})
            result = {"role": "toolResult", "toolCallId": f"c{n}", "content": "out " * 8 * n}
            await append_message(wire, f"t{n}", result)
        plan_id = await call(
            wire, "session/plan_compaction", "plan.plan_id", keep_recent_tokens=keep
        )
        await call(wire, "compact", plan_id=plan_id, summary="S")
        roles = await call(wire, "build_context", "messages[].role")
        assert roles[1:2] != ["toolResult"]
        # And nobody may ask for another cut.
        await append(wire, "u9")
        other = {"summary": "S", "first_kept_entry_id": "t5"}
        assert await refused(wire, "compact", "path", **other) == "first_kept_entry_id"
        mine = {"messages": [result], "expected": {"leaf_id": "u9"}}
        refusal = await refused(wire, "compact", "{kind,path}", **mine)
        assert refusal == ("entry_invalid", "messages[0]")


@pytest.mark.parametrize("shape", ["stored", "openai", "anthropic"])
async def test_d23_nor_does_one_that_others_cut_when_it_is_mended(house: House, shape: str) -> None:
    result = {"role": "toolResult", "toolCallId": "c1", "content": "out"}
    lines: list[dict[str, Any]] = [
        {"type": "message", "id": "u1", "parent_id": None, "message": {"role": "user"}},
        {"type": "message", "id": "t1", "parent_id": "u1", "message": result},
        {"type": "compaction", "id": "s1", "parent_id": "t1", "summary": "S"},
    ]
    lines[2]["first_kept_entry_id"] = "t1"
    house.put(lines)
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await call(wire, "build_context", "sources", repair=True, shape=shape) == ["s1"]


async def test_d24_one_clients_branch_moves_nobody_elses_leaf(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as one, daemon.connect() as two:
        await create_with(one, "u1", "a1", persist="immediate")
        await call(two, "session/branch", entry_id="u1", head="other")
        await append(two, "b1", head="other")
        assert await call(one, "build_context", "sources") == ["u1", "a1"]
        assert await call(two, "build_context", "sources", head="other") == ["u1", "b1"]
        # Who follows the shared leaf goes where it goes.
        await call(two, "session/branch", entry_id="u1")
        assert await call(one, "build_context", "sources") == ["u1"]


async def import_pi(wire: Wire, entries: list[dict[str, Any]]) -> str:
    header = {"type": "session", "version": 3, "id": "0197c1d2", "timestamp": TIME, "cwd": "/p"}
    content = "".join(json.dumps(line) + "\n" for line in (header, *entries))
    return str(await call(wire, "session/import", "session.id", content=content))
