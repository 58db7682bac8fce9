"""Sessions that are created while others create, look for or hold them."""

from __future__ import annotations

import pytest

from sessiond.testing.daemon import Refusal
from tests.kit.calls import create, refused_answer, session_info
from tests.kit.house import House, arrived
from tests.kit.sessions import SESSION

pytestmark = pytest.mark.both_loops


async def test_of_two_that_create_one_session_one_does(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        one = await wire.request("session/create", cwd="/p", session_id=SESSION)
        two = await other.request("session/create", cwd="/p", session_id=SESSION)
        three = await other.request(
            "session/create", cwd="/p", session_id=SESSION, if_exists="open"
        )
        outcomes = []
        for to, number in ((wire, one), (other, two)):
            try:
                outcomes.append((await to.answer(number))["created"])
            except Refusal as refused:
                outcomes.append(refused.data["kind"])
        assert sorted(map(str, outcomes)) == ["True", "session_exists"]
        assert not (await other.answer(three))["created"]


@pytest.mark.parametrize("if_exists", ["fail", "open"])
async def test_creating_what_somebody_just_failed_to_find_creates_it(
    house: House, if_exists: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create(wire, "session-b")
        with house.disk.hold("listdir") as gate:
            early = await wire.request("session/get", session_id=SESSION)
            await arrived(gate)
            made = await other.request(
                "session/create", cwd="/p", session_id=SESSION, if_exists=if_exists
            )
            await other.call("server/ping")
            late = await wire.request("session/get", session_id=SESSION)
            await wire.call("server/ping")
        assert await refused_answer(wire, early) == "session_not_found"
        assert (await other.answer(made))["created"]
        assert (await wire.answer(late))["session"]["id"] == SESSION


async def test_a_session_in_memory_cannot_take_the_id_of_a_file(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await wire.call("session/close", session_id=SESSION)
        number = await wire.request("session/create", cwd="/p", session_id=SESSION, persist="never")
        assert await refused_answer(wire, number) == "session_exists"


async def test_a_file_that_another_process_holds_is_locked_and_says_by_whom(house: House) -> None:
    path = house.put([])
    async with house.daemon() as daemon, daemon.connect() as wire:
        fd = house.disk.open_update(path)
        assert house.disk.lock(fd)
        number = await wire.request("session/get", session_id=SESSION)
        assert await refused_answer(wire, number) == "session_locked"
        house.disk.close(fd)
        assert (await session_info(wire))["seq"] == 0
