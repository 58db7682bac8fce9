"""A daemon that stops: it answers what was asked, and refuses what comes after."""

from __future__ import annotations

import anyio
import pytest

from tests.kit.calls import append, create, refused_answer
from tests.kit.house import House, arrived
from tests.kit.patience import eventually
from tests.kit.sessions import SESSION

pytestmark = [pytest.mark.both_loops, pytest.mark.platform]


async def test_draining_answers_what_was_asked_and_refuses_what_comes_after(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create(wire)
        await append(wire, "n0", content="x" * 100_000)
        async with anyio.create_task_group() as tasks:
            with house.disk.hold("fdatasync") as gate, house.disk.hold("pread") as reads:
                reads.open.set()
                asked = [await wire.request("append", session_id=SESSION, message={"role": "user"})]
                await arrived(gate)
                asked += [
                    await wire.request("append", session_id=SESSION, message={"role": "user"})
                    for _ in range(3)
                ]
                read = await other.request("session/entries", session_id=SESSION)
                await wire.call("server/ping")
                tasks.start_soon(daemon.end)
                assert (await wire.next_notification())["method"] == "server/draining"
                assert daemon.service.draining
                late = await wire.request("append", session_id=SESSION, message={"role": "user"})
                assert await refused_answer(wire, late) == "draining"
                await wire.call("server/ping")
            assert [(await wire.answer(number))["seq"] for number in asked] == [2, 3, 4, 5]
            assert (await other.answer(read))["seq"] == 1
            with pytest.raises(anyio.EndOfStream):
                await wire.receive()
    assert len(house.stored()) == 6
    assert house.disk.open_descriptors == 0


async def test_draining_waits_for_reads_that_have_begun(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        for n in range(3):
            # Several reads, so that a file closed after the first would fail the second.
            await append(wire, f"n{n}", content="x" * 300_000)
        async with anyio.create_task_group() as tasks:
            with house.disk.hold("pread") as gate:
                read = await wire.request("session/entries", session_id=SESSION)
                await arrived(gate)
                tasks.start_soon(daemon.end)
                await wire.call("server/ping")
            assert len((await wire.answer(read))["entries"]) == 3


async def test_draining_does_not_wait_for_a_subscriber_that_does_not_read(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as stuck:
        await create(wire)
        await append(wire, "n1", content="x" * 100_000)
        with house.disk.hold("pread") as gate:
            await stuck.call("subscribe", session_id=SESSION, after={"seq": 0})
            flush = await stuck.request("session/flush", session_id=SESSION)
            await arrived(gate)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(daemon.end)
                assert await refused_answer(stuck, flush) == "subscription_not_found"
                gate.open.set()


async def test_a_stop_that_catches_a_fork_at_its_opening_waits_for_its_answer(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create(wire, persist="immediate")
        with house.disk.hold("rename") as gate:
            sent = await wire.request("session/fork", session_id=SESSION, new_session_id="the-fork")
            await arrived(gate)
            await other.call("server/stop")
            # Nobody is told of it.
            await eventually(lambda: daemon.service.draining)
        # It was made, so its maker is told of it.
        assert (await wire.answer(sent))["session"]["id"] == "the-fork"
