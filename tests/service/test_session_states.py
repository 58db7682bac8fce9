"""Turns and states of sessions in answers and lists: derived, set, and kept over restarts."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

from sessiond.testing.daemon import Wire
from tests.kit.calls import append, append_message, call, create, session_info
from tests.kit.house import House
from tests.kit.sessions import stored_entry, stored_message

CALL = [{"type": "toolCall", "id": "c1", "name": "ls", "arguments": {}}]


async def state(wire: Wire) -> tuple[Any, ...]:
    info = await session_info(wire)
    listed = (await wire.call("session/list", drafts=True))["sessions"][0]
    names = ("turn_count", "status", "started_at", "ended_at")
    found = tuple(info[name] for name in names)
    # A list says what an answer about the session says.
    assert tuple(listed[name] for name in names) == found
    return found[0], found[1], found[2] is not None, found[3] is not None


async def test_the_state_follows_the_last_message_of_main(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        assert await state(wire) == (0, None, False, False)
        await append(wire, "u1")
        assert await state(wire) == (1, "active", True, False)
        await append_message(wire, "a1", {"role": "assistant", "content": CALL})
        assert await state(wire) == (1, "active", True, False)
        await append_message(wire, "r1", {"role": "tool", "tool_call_id": "c1", "content": "x"})
        assert await state(wire) == (1, "active", True, False)
        await append(wire, "a2", role="assistant")
        assert await state(wire) == (1, "done", True, True)
        for n in range(3):
            entry = {"type": "custom", "custom_type": "x", "data": n}
            await call(wire, "append", entry=entry)
        assert await state(wire) == (1, "done", True, True)
        await append(wire, "u2")
        failed = {"role": "assistant", "content": "", "stopReason": "error"}
        await append_message(wire, "a3", failed)
        assert await state(wire) == (2, "error", True, True)
        await call(wire, "branch", entry_id="r1")
        assert await state(wire) == (1, "active", True, False)
        await call(wire, "branch", entry_id=None)
        assert await state(wire) == (0, None, False, False)


async def test_a_status_that_was_set_wins_until_it_is_cleared(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await append(wire, "u1")
        await append(wire, "a1", role="assistant")
        for status, is_over in (("active", False), ("error", True), ("on hold", True)):
            await call(wire, "session/update", status=status)
            assert await state(wire) == (1, status, True, is_over)
        await call(wire, "session/update", status=None)
        assert await state(wire) == (1, "done", True, True)


async def test_lists_filter_by_derived_and_by_set_states(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        for name, role, status in (
            ("session-1", "user", None),
            ("session-2", "assistant", None),
            ("session-3", "assistant", "active"),
        ):
            await create(wire, name, persist="immediate")
            await append(wire, f"m-{name}", role=role, session_id=name)
            if status:
                await wire.call("session/update", session_id=name, status=status)

        async def listed(status: str) -> set[str]:
            page = await wire.call("session/list", status=status)
            return {one["id"] for one in page["sessions"]}

        for _ in range(2):
            assert await listed("active") == {"session-1", "session-3"}
            assert await listed("done") == {"session-2"}
            assert await listed("error") == set()
            for number in (1, 2, 3):
                await wire.call("session/close", session_id=f"session-{number}")


async def test_times_are_those_of_the_first_prompt_and_the_last_message(house: House) -> None:
    def at(second: int) -> str:
        return f"2026-02-01T00:00:0{second}.000Z"

    lines = [
        stored_message("a0", None, "assistant") | {"timestamp": at(1)},
        stored_message("u1", "a0") | {"timestamp": at(2)},
        stored_message("a1", "u1", "assistant") | {"timestamp": at(3)},
        stored_entry("label", "l1", "a1", target_id="a1", label="x") | {"timestamp": at(9)},
    ]
    house.put(lines)
    async with house.daemon() as daemon, daemon.connect() as wire:
        info = await session_info(wire)
        assert (info["started_at"], info["ended_at"]) == (at(2), at(3))
        assert (info["turn_count"], info["updated_at"]) == (2, at(9))


async def test_a_long_answer_is_judged_by_what_it_says(house: House) -> None:
    """A long line is not read on the loop; the list reads it, and the answer says the same then."""
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await append(wire, "u1")
        said = [{"type": "text", "text": "x" * 100_000}, *CALL]
        await append_message(wire, "a1", {"role": "assistant", "content": said})
        await wire.call("session/list")
        assert await state(wire) == (1, "active", True, False)
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await state(wire) == (1, "active", True, False)


async def test_rows_of_an_older_catalog_are_read_again(house: House) -> None:
    """Version 8 knew no turns: its rows lack what they say."""
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        await append(wire, "u1")
        await append(wire, "a1", role="assistant")
        (before,) = (await wire.call("session/list"))["sessions"]
    house.disk.seconds += 3600
    older = {"turn_count", "started_at", "ended_at"}
    with closing(sqlite3.connect(house.layout.root / "catalog.sqlite")) as old, old:
        row = {name: value for name, value in before.items() if name not in older}
        info = json.dumps({**row, "status": None}).encode()
        old.execute("UPDATE sessions SET status = NULL, info = ?", (info,))
        old.execute("PRAGMA user_version = 8")
    async with house.daemon() as daemon, daemon.connect() as wire:
        (after,) = (await wire.call("session/list", status="done"))["sessions"]
    assert after == before
