"""Defects of the programs that sessiond replaces, none of which it has.

Each test is named after its line in section D of the facts about those programs, for what
concerns contexts, compactions, forks, rewinds and resets.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessiond.testing.wire import Wire
from tests.kit.calls import append, append_message, create, say, session_info
from tests.kit.house import House
from tests.kit.sessions import SESSION, TIME

pytestmark = pytest.mark.one_loop


async def sources(wire: Wire, session_id: str = SESSION, **more: Any) -> list[str]:
    built = await wire.call("build_context", session_id=session_id, **more)
    found: list[str] = built["sources"]
    return found


async def path_ids(wire: Wire, session_id: str = SESSION) -> list[str]:
    page = await wire.call("session/path", session_id=session_id)
    return [row["entry"]["id"] for row in page["entries"]]


async def test_d2_a_branch_at_an_index_ends_there(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        for entry_id in ("m0", "m1", "m2", "m3"):
            await append(wire, entry_id)
        forked = await wire.call("session/fork", session_id=SESSION, at_message=1)
        assert await path_ids(wire, forked["session"]["id"]) == ["m0", "m1"]


async def test_d3_a_fork_without_a_link_has_none(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        await append(wire, "m0")
        forked = (await wire.call("session/fork", session_id=SESSION, link="none"))["session"]
        assert forked["lineage"] == {"detached": True}
        forest = await wire.call("catalog/forest", scope="all")
        (node,) = [node for node in forest["nodes"] if node["session_id"] == forked["id"]]
        assert (node["depth"], node["parent_id"]) == (0, None)


@pytest.mark.parametrize("entries", ["path", "all", "context", "none"])
async def test_d4_what_was_forked_is_there_after_a_restart(house: House, entries: str) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        for entry_id in ("m0", "m1"):
            await append(wire, entry_id)
        asked = {"session_id": SESSION, "entries": entries, "new_session_id": "the-fork"}
        forked = (await wire.call("session/fork", **asked))["session"]
        told = await wire.call("session/entries", session_id="the-fork")
    async with house.daemon() as daemon, daemon.connect() as wire:
        again = await session_info(wire, "the-fork")
        assert again["lineage"] == forked["lineage"]
        assert (await wire.call("session/entries", session_id="the-fork"))["entries"] == told[
            "entries"
        ]
        assert again["message_count"] == (0 if entries == "none" else 2)


async def test_d6_rewound_entries_stay_gone_after_a_restart(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        for entry_id, role in (("u1", "user"), ("a1", "assistant"), ("t1", "toolResult")):
            await append(wire, entry_id, role=role)
        rewound = await wire.call("session/rewind", session_id=SESSION, to="u1")
        assert rewound["rewound"] == ["a1", "t1"]
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await sources(wire) == ["u1"]
        # The attempt is off the path, not out of the file.
        stored = await wire.call("session/entries", session_id=SESSION)
        ids = [one["entry"]["id"] for one in stored["entries"] if "message" in one["entry"]]
        assert ids == ["u1", "a1", "t1"]
        await append(wire, "a2", role="assistant")
        assert await sources(wire) == ["u1", "a2"]


@pytest.mark.parametrize("dialect", ["native", "pi"])
async def test_d7_a_reset_survives_a_restart(house: House, dialect: str) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        session_id = SESSION
        if dialect == "native":
            await create(wire, persist="immediate")
            await append(wire, "u1")
        else:
            session_id = await import_pi(wire, [pi_message("aaaa0001", None)])
        await wire.call("session/reset", session_id=session_id)
        assert await sources(wire, session_id) == []
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await sources(wire, session_id) == []
        await say(wire, "anew", session_id=session_id)
        built = await wire.call("build_context", session_id=session_id)
        assert [message["content"] for message in built["messages"]] == ["anew"]


async def test_d8_a_path_over_a_label_keeps_the_whole_context(house: House) -> None:
    label = {"type": "label", "targetId": "aaaa0002", "label": "here", **pi_base("aaaa0003", 2)}
    entries = [
        pi_message("aaaa0001", None),
        pi_message("aaaa0002", 1),
        label,
        pi_message("aaaa0004", 3),
    ]
    whole = ["aaaa0001", "aaaa0002", "aaaa0004"]
    async with house.daemon() as daemon, daemon.connect() as wire:
        session_id = await import_pi(wire, entries)
        assert await sources(wire, session_id) == whole
        forked = (await wire.call("session/fork", session_id=session_id))["session"]
        assert await sources(wire, forked["id"]) == whole
        labels = await wire.call("session/labels", session_id=forked["id"])
        assert [(one["entry_id"], one["label"]) for one in labels["labels"]] == [
            ("aaaa0002", "here")
        ]


async def test_d10_an_empty_compaction_means_the_same_after_a_restart(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        await append(wire, "u1")
        empty = {"messages": [], "expected": {"leaf_id": "u1"}}
        await wire.call("compact", session_id=SESSION, **empty)
        assert await sources(wire) == []
        await append(wire, "u2")
        assert await sources(wire) == ["u2"]
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await sources(wire) == ["u2"]


async def test_d11_a_compaction_stores_the_first_entry_kept(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, compaction={"keep_recent_tokens": 1}, persist="immediate")
        for entry_id in ("u1", "u2"):
            await append(wire, entry_id)
        plan = (await wire.call("session/plan_compaction", session_id=SESSION))["plan"]
        await wire.call("compact", session_id=SESSION, plan_id=plan["plan_id"], summary="What was.")
        (stored,) = [line for line in house.stored() if line["type"] == "compaction"]
        assert stored["first_kept_entry_id"] == plan["first_kept_entry_id"] == "u2"
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await sources(wire) == [stored["id"], "u2"]


async def test_d16_of_two_at_one_leaf_the_second_is_told_the_new_one(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as one, daemon.connect() as two:
        await create(one, persist="immediate")
        await append(one, "u1")
        expected = {"leaf_id": "u1"}
        await append(one, "a1", expected=expected)
        refused = await two.refusal("append", **late(expected))
        assert (refused.data["kind"], refused.data["actual"]["leaf_id"]) == (
            "precondition_failed",
            "a1",
        )
        # Who expects nothing goes on from where the other has come to.
        await append(two, "a2")
        assert await sources(one) == ["u1", "a1", "a2"]


@pytest.mark.parametrize("keep", [1, 3, 10, 30, 100])
async def test_d23_a_context_after_a_compaction_starts_with_no_tool_result(
    house: House, keep: int
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        await append(wire, "u0")
        result: dict[str, Any] = {}
        for n in range(6):
            call = {"type": "toolCall", "id": f"c{n}", "name": "ls", "arguments": {"n": n}}
            await append_message(wire, f"a{n}", {"role": "assistant", "content": [call]})
            result = {"role": "toolResult", "toolCallId": f"c{n}", "content": "out " * 8 * n}
            await append_message(wire, f"t{n}", result)
        asked = {"session_id": SESSION, "keep_recent_tokens": keep}
        plan = (await wire.call("session/plan_compaction", **asked))["plan"]
        await wire.call("compact", session_id=SESSION, plan_id=plan["plan_id"], summary="S")
        built = await wire.call("build_context", session_id=SESSION)
        assert [message["role"] for message in built["messages"]][1:2] != ["toolResult"]
        # And nobody may ask for another cut.
        await append(wire, "u9")
        refused = await wire.refusal(
            "compact", session_id=SESSION, summary="S", first_kept_entry_id="t5"
        )
        assert refused.data["path"] == "first_kept_entry_id"
        mine = {"messages": [result], "expected": {"leaf_id": "u9"}}
        refused = await wire.refusal("compact", session_id=SESSION, **mine)
        assert (refused.data["kind"], refused.data["path"]) == ("entry_invalid", "messages[0]")


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
        built = await wire.call("build_context", session_id=SESSION, repair=True, shape=shape)
        assert built["sources"] == ["s1"]


async def test_d24_one_clients_branch_moves_nobody_elses_leaf(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as one, daemon.connect() as two:
        await create(one, persist="immediate")
        for entry_id in ("u1", "a1"):
            await append(one, entry_id)
        await two.call("session/branch", session_id=SESSION, entry_id="u1", head="other")
        await append(two, "b1", head="other")
        assert await sources(one) == ["u1", "a1"]
        assert await sources(two, head="other") == ["u1", "b1"]
        # Who follows the shared leaf goes where it goes.
        await two.call("session/branch", session_id=SESSION, entry_id="u1")
        assert await sources(one) == ["u1"]


def late(expected: dict[str, Any]) -> dict[str, Any]:
    message = {"role": "assistant", "content": "late"}
    return {"session_id": SESSION, "message": message, "expected": expected}


def pi_base(entry_id: str, parent: int | None) -> dict[str, Any]:
    parent_id = None if parent is None else f"aaaa000{parent}"
    return {"id": entry_id, "parentId": parent_id, "timestamp": TIME}


def pi_message(entry_id: str, parent: int | None) -> dict[str, Any]:
    said = {"role": "user", "content": entry_id, "timestamp": 1}
    return {"type": "message", **pi_base(entry_id, parent), "message": said}


async def import_pi(wire: Wire, entries: list[dict[str, Any]]) -> str:
    header = {"type": "session", "version": 3, "id": "0197c1d2", "timestamp": TIME, "cwd": "/p"}
    content = "".join(json.dumps(line) + "\n" for line in (header, *entries))
    answer = await wire.call("session/import", content=content)
    session_id: str = answer["session"]["id"]
    return session_id
