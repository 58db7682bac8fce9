"""updated_at: the newest time of an entry, equal before and after a reopening, in any dialect."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from sessiond.testing.daemon import Wire
from tests.kit.calls import session_info
from tests.kit.house import House

CREATED = "2026-01-15T10:30:00.000Z"
# As they are sent, and the moment that each of them is.
TIMES = {
    None: CREATED,
    "2020-05-01T00:00:00.000Z": "2020-05-01T00:00:00.000Z",
    "2020-05-01T00:00:00+02:00": "2020-04-30T22:00:00.000Z",
    "2019-12-31T23:59:59.123456789-00:00": "2019-12-31T23:59:59.123Z",
    "2026-01-15T10:30:01Z": "2026-01-15T10:30:01.000Z",
    "9999-12-31T23:59:59Z": "9999-12-31T23:59:59.000Z",
}
PI = f'{{"type":"session","version":3,"id":"session-p","timestamp":"{CREATED}","cwd":"/p"}}\n'


def dated(entry_id: str, timestamp: str | None) -> dict[str, Any]:
    entry = {
        "type": "message",
        "id": entry_id,
        "message": {"role": "user", "content": "x", "timestamp": 1},
    }
    return entry if timestamp is None else {**entry, "timestamp": timestamp}


async def make_session(wire: Wire, dialect: str) -> str:
    if dialect == "pi":
        made = await wire.call("session/import", content=PI)
    else:
        made = await wire.call("session/create", cwd="/p", persist="immediate")
    session_id: str = made["session"]["id"]
    return session_id


async def test_a_timestamp_of_2020_is_the_sessions_time_before_a_close_and_after(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        session_id = await make_session(wire, "native")
        assert (await session_info(wire, session_id))["updated_at"] == CREATED
        old = dated("e1", "2020-05-01T00:00:00.000Z")
        await wire.call("append", session_id=session_id, entry=old)
        assert (await session_info(wire, session_id))["updated_at"] == "2020-05-01T00:00:00.000Z"
        await wire.call("session/close", session_id=session_id)
        assert (await session_info(wire, session_id))["updated_at"] == "2020-05-01T00:00:00.000Z"


@pytest.mark.parametrize("dialect", ["native", "pi"])
@pytest.mark.parametrize("seed", range(3))
async def test_get_and_list_say_the_same_before_a_close_and_after_reopening(
    house: House, dialect: str, seed: int
) -> None:
    dice = random.Random(seed)
    newest: dict[str, str] = {}
    async with house.daemon() as daemon, daemon.connect() as wire:
        for _ in range(6):
            session_id = await make_session(wire, dialect)
            times = [dice.choice([*TIMES]) for _ in range(dice.randrange(5))]
            entries = [dated(f"e{number}", time) for number, time in enumerate(times)]
            while entries:
                some = [entries.pop(0) for _ in range(dice.randint(1, len(entries)))]
                await wire.call("append", session_id=session_id, entries=some)
            newest[session_id] = max((TIMES[time] for time in times), default=CREATED)
        live = {session_id: await session_info(wire, session_id) for session_id in newest}
        listed = await wire.call("session/list")
        for session_id in newest:
            await wire.call("session/close", session_id=session_id)
        assert {session_id: await session_info(wire, session_id) for session_id in newest} == live
    assert {session_id: info["updated_at"] for session_id, info in live.items()} == newest
    async with house.daemon() as daemon, daemon.connect() as wire:
        again = await wire.call("session/list")
        order = [(one["updated_at"], one["id"]) for one in again["sessions"]]
        assert order == [(one["updated_at"], one["id"]) for one in listed["sessions"]]
        assert order == sorted(((at, one) for one, at in newest.items()), reverse=True)
        assert {session_id: await session_info(wire, session_id) for session_id in newest} == live


async def test_the_newest_entry_need_not_be_the_last_one(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        session_id = await make_session(wire, "native")
        for number, time in enumerate(["2031-01-01T00:00:00Z", "2020-01-01T00:00:00Z", None]):
            await wire.call("append", session_id=session_id, entry=dated(f"e{number}", time))
        assert (await session_info(wire, session_id))["updated_at"] == "2031-01-01T00:00:00.000Z"
        dry = await wire.call("session/fork", session_id=session_id, dry_run=True)
        made = await wire.call("session/fork", session_id=session_id)
        assert dry["session"]["updated_at"] == made["session"]["updated_at"]


async def test_lines_of_other_programs_count_while_a_session_is_open(house: House) -> None:
    path = house.put([])
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert (await session_info(wire))["updated_at"] == CREATED
        for line in (
            b'{"type":"custom","id":"c1","timestamp":1893456000,"custom_type":"x"}\n',
            b'{"type":"custom","id":"c2","timestamp":"no time","custom_type":"x"}\n',
            b'{"type":"custom","id":"c3","timestamp":{"x":1},"custom_type":"x"}\n',
            b'{"type":"custom","id":"c4","custom_type":"x"}\n',
        ):
            house.disk.write_as_another(path, line)
        await wire.call("append", session_id="session-a", message={"role": "user"})
        live = await session_info(wire)
        assert live["updated_at"] == "2030-01-01T00:00:00.000Z"
        await wire.call("session/close", session_id="session-a")
        assert await session_info(wire) == live


async def test_imports_keep_their_order_in_lists(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        made: dict[str, str] = {}
        for day in ("03", "01", "02"):
            entry = '{"type":"message","id":"e1","parentId":null,"timestamp":"2020-01-%sT00:00:00.000Z","message":{"role":"user","content":"x"}}\n'
            answer = await wire.call("session/import", content=PI + entry % day)
            made[day] = answer["session"]["id"]
            # What is read, as by opening it in an editor, does not make it newer.
            await wire.call("subscribe", session_id=made[day])
        listed = (await wire.call("session/list"))["sessions"]
        assert [one["id"] for one in listed] == [made["03"], made["02"], made["01"]]


async def test_lists_believe_no_time_that_an_earlier_version_noted(house: House) -> None:
    catalog = house.layout.root / "catalog.sqlite"
    async with house.daemon() as daemon, daemon.connect() as wire:
        session_id = await make_session(wire, "native")
        entries = [dated("e1", "2031-01-01T00:00:00Z"), dated("e2", None)]
        await wire.call("append", session_id=session_id, entries=entries)
        (before,) = (await wire.call("session/list"))["sessions"]
    house.disk.seconds += 3600
    # Version 3 listed the time of the last entry.
    with closing(sqlite3.connect(catalog)) as old, old:
        old.execute(
            "UPDATE sessions SET updated_at = ?1, info = replace(info, ?2, ?1)",
            (CREATED, "2031-01-01T00:00:00.000Z"),
        )
        old.execute("PRAGMA user_version = 3")
    async with house.daemon() as daemon, daemon.connect() as wire:
        (after,) = (await wire.call("session/list"))["sessions"]
    assert after == before
    assert after["updated_at"] == "2031-01-01T00:00:00.000Z"
