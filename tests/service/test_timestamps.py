"""Times of clients are RFC 3339, exactly; files of other programs are read more leniently."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.kit.calls import create, session_info
from tests.kit.house import House
from tests.kit.sessions import SESSION

CREATED = "2026-01-15T10:30:00.000Z"
# RFC 3339, section 5.6 and its examples, and the moment of each as the daemon spells it.
LEGAL = {
    "1985-04-12T23:20:50.52Z": "1985-04-12T23:20:50.520Z",
    "1996-12-19T16:39:57-08:00": "1996-12-20T00:39:57.000Z",
    "1937-01-01T12:00:27.87+00:20": "1937-01-01T11:40:27.870Z",
    "1990-12-31T23:59:60Z": "1991-01-01T00:00:00.000Z",
    "1990-12-31T15:59:60.25-08:00": "1991-01-01T00:00:00.250Z",
    "2015-06-30T23:59:60.5z": "2015-07-01T00:00:00.500Z",
    "2020-01-01t00:00:00z": "2020-01-01T00:00:00.000Z",
    "2020-02-29T00:00:00-00:00": "2020-02-29T00:00:00.000Z",
    f"2020-01-01T00:00:00.{'1' * 5000}Z": "2020-01-01T00:00:00.111Z",
    "2020-01-01T00:00:00.0001+23:59": "2019-12-31T00:01:00.000Z",
    "0000-02-29T00:00:00Z": "0001-01-01T00:00:00.000Z",
    "9999-12-31T23:59:59-01:00": "9999-12-31T23:59:59.999Z",
}
ILLEGAL = [
    *("2020-W01-1", "20200101T000000Z", "2020-01-01", "2020-01-01T00:00:00,5Z", ""),
    *("2020-01-01 00:00:00", "2020-01-01 00:00:00Z", "2020-01-01T00:00Z", "2020-01-01T00Z"),
    *("2020-01-01T00:00:00.Z", "2020-01-01T00:00:00+0100", "2020-01-01T00:00:00+01", "now"),
    *("2020-01-01T00:00:00+24:00", "2020-01-01T00:00:00+01:60", "2020-01-01T24:00:00Z"),
    *("2021-02-29T00:00:00Z", "1900-02-29T00:00:00Z", "2020-13-01T00:00:00.000Z"),
    *("2020-00-01T00:00:00Z", "2020-01-00T00:00:00Z", "2020-01-01T00:60:00Z"),
    *("2020-01-15T23:59:60Z", "2020-12-31T23:58:60Z", "2020-12-31T23:59:61Z"),
    *("2020-01-01T23:59:60+00:00", " 2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z\n"),
    *("+2020-01-01T00:00:00Z", "12020-01-01T00:00:00Z", "\u0662020-01-01T00:00:00Z", "1577836800"),
]
FILTERS = ("created_after", "created_before", "updated_after", "updated_before")
PI = f'{{"type":"session","version":3,"id":"session-p","timestamp":"{CREATED}","cwd":"/p"}}\n'


def entries_at(time: str) -> list[dict[str, Any]]:
    message = {"role": "user", "content": "x", "timestamp": 1}
    return [
        {"type": "message", "message": message, "timestamp": time},
        {"type": "acme.note", "timestamp": time},
    ]


async def test_what_rfc_3339_allows_is_stored_and_sent_as_it_came(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        for time in LEGAL:
            told = await wire.call("append", session_id=SESSION, entries=entries_at(time))
            assert [entry["timestamp"] for entry in told["entries"]] == [time, time]
        rows = (await wire.call("session/entries", session_id=SESSION))["entries"]
        assert [row["entry"]["timestamp"] for row in rows] == [one for one in LEGAL for _ in "12"]
        nodes = (await wire.call("session/tree", session_id=SESSION))["nodes"]
        assert {node["timestamp"] for node in nodes} == {*LEGAL.values()}
        assert (await wire.call("session/verify", session_id=SESSION))["problems"] == []


async def test_anything_else_is_refused_by_its_path(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        for time in ILLEGAL:
            for index, entry in enumerate(entries_at(time)):
                refused = await wire.refusal(
                    "append", session_id=SESSION, entries=[*entries_at(CREATED)[:index], entry]
                )
                assert refused.data["kind"] == "invalid_params", time
                assert refused.data["path"] == f"entries[{index}].timestamp"
            for name in FILTERS:
                refused = await wire.refusal("session/list", **{name: time})
                assert (refused.data["kind"], refused.data["path"]) == ("invalid_params", name)
        assert (await session_info(wire))["seq"] == 0


async def test_filters_go_by_the_moment_however_it_is_spelled(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        entry = entries_at("2016-12-31T23:59:60Z")[0]
        await wire.call("append", session_id=SESSION, entry=entry)
        for time in ("2016-12-31T23:59:60z", "2017-01-01t00:00:00Z", "2017-01-01T01:00:00+01:00"):
            assert len((await wire.call("session/list", updated_after=time))["sessions"]) == 1
            assert (await wire.call("session/list", updated_before=time))["sessions"] == []


async def test_in_a_file_of_pi_a_time_is_spelled_as_pi_spells_it(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        session = (await wire.call("session/import", content=PI))["session"]
        await watcher.call("subscribe", session_id=session["id"])
        for number, (time, moment) in enumerate(LEGAL.items()):
            entry = {**entries_at(time)[0], "id": f"e{number}"}
            told = await wire.call("append", session_id=session["id"], entry=entry)
            event = (await watcher.next_notification())["params"]["entry"]
            assert told["entries"][0]["timestamp"] == event["timestamp"] == moment
            again = await wire.call("append", session_id=session["id"], entry=entry)
            assert again["duplicate"]
            assert again["entries"] == told["entries"]


@pytest.mark.parametrize("time", ["2020-01-01", "20200101T000000Z", 1577836800, 1577836800000])
async def test_a_file_of_another_program_is_read_leniently(house: House, time: Any) -> None:
    line = {"type": "custom", "id": "c1", "timestamp": time, "custom_type": "x"}
    house.put([line])
    async with house.daemon() as daemon, daemon.connect() as wire:
        info = await session_info(wire)
        assert info["updated_at"] == "2020-01-01T00:00:00.000Z"
        (row,) = (await wire.call("session/entries", session_id=SESSION))["entries"]
        assert row["entry"] == json.loads(json.dumps(line))
