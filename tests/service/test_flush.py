"""session/flush with durability: everything before the call is on disk when the answer says so."""

from __future__ import annotations

import msgspec
import pytest

from tests.kit.calls import (
    append,
    append_soon,
    call,
    create,
    create_with,
    part_of,
    refused,
    say,
    watch,
)
from tests.kit.house import House, arrived
from tests.kit.sessions import SESSION

pytestmark = pytest.mark.both_loops

TO_DISK = {"durability": "disk"}


async def test_a_flush_brings_to_the_disk_what_was_left_to_the_system(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create(wire)
        syncs = house.disk.syncs
        await append(wire, "n1", durability="os")
        await append(other, "n2", durability="os")
        assert house.disk.syncs == syncs
        # The caller has no subscription: there are no events to wait for.
        assert await call(wire, "session/flush", **TO_DISK) == {"seq": 2, "durability": "disk"}
        assert house.disk.syncs == syncs + 1
        assert await call(wire, "session/flush", **TO_DISK) == {"seq": 2, "durability": "disk"}
        assert house.disk.syncs == syncs + 1, "what is synced is not synced again"
        left = house.disk.crash()
    house.files = left
    assert part_of(house.stored()[1:], "[].id") == ["n1", "n2"]


async def test_a_flush_is_not_answered_before_the_sync(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await append(wire, "n1", durability="os")
        with house.disk.hold("fdatasync") as gate:
            asked = await wire.request("session/flush", session_id=SESSION, **TO_DISK)
            await arrived(gate)
            ping = await wire.request("server/ping")
            assert msgspec.json.decode(await wire.receive())["id"] == ping
        assert (await wire.answer(asked))["durability"] == "disk"


async def test_a_flush_covers_the_appends_of_its_batch_that_were_sent_before_it(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        with house.disk.hold("fdatasync") as gate:
            await append_soon(wire, "block")
            await arrived(gate)
            first = await append_soon(wire, "n1", durability="os")
            asked = await wire.request("session/flush", session_id=SESSION, **TO_DISK)
            await wire.call("server/ping")
        assert (await wire.answer(first))["durability"] == "disk"
        assert await wire.answer(asked) == {"seq": 2, "durability": "disk"}
        left = house.disk.crash()
    house.files = left
    assert part_of(house.stored()[1:], "[].id") == ["block", "n1"]


async def test_a_flush_says_disk_of_what_is_before_it_and_not_of_what_comes_behind(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        with house.disk.hold("fdatasync") as gate:
            await append_soon(wire, "block")
            await arrived(gate)
            asked = await wire.request("session/flush", session_id=SESSION, **TO_DISK)
            last = await append_soon(wire, "n1", durability="os")
            await wire.call("server/ping")
        assert await wire.answer(asked) == {"seq": 1, "durability": "disk"}
        assert (await wire.answer(last))["durability"] == "os"


async def test_a_flush_whose_sync_fails_is_refused_and_can_be_repeated(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await append(wire, "n1", durability="os")
        house.disk.fail("fdatasync")
        refusal = await refused(wire, "session/flush", "{kind,retryable}", **TO_DISK)
        assert refusal == ("storage_error", True)
        assert await call(wire, "session/flush", **TO_DISK) == {"seq": 1, "durability": "disk"}
        left = house.disk.crash()
    house.files = left
    assert part_of(house.stored()[1:], "[].id") == ["n1"]


@pytest.mark.parametrize("bodies", [True, False])
async def test_the_events_come_before_the_flush_that_makes_them_durable(
    house: House, bodies: bool
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await create_with(wire, "n1")
        await watch(watcher, after={"seq": 0}, bodies=bodies)
        for name in ("n2", "n3"):
            await append(wire, name, durability="os")
        assert await call(watcher, "session/flush", **TO_DISK) == {
            "seq": 3,
            "durability": "disk",
        }
        ids = [
            one["params"]["entry"]["id"]
            for one in watcher.notifications
            if one["method"] == "session/event"
        ]
        assert ids == ["n1", "n2", "n3"]


async def test_a_flush_of_a_session_in_memory_says_that_memory_is_all_there_is(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="never")
        await say(wire)
        assert await call(wire, "session/flush", **TO_DISK) == {"seq": 1, "durability": "memory"}


async def test_without_durability_a_flush_is_about_events_and_syncs_nothing(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        assert await refused(wire, "session/flush") == "subscription_not_found"
        await watch(wire)
        await append(wire, "n1", durability="os")
        syncs = house.disk.syncs
        assert await call(wire, "session/flush") == {"seq": 1}
        assert house.disk.syncs == syncs


async def test_a_flush_is_not_said_to_be_on_a_disk_that_has_lost_the_file(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await append(wire, "n1", durability="os")
        (path,) = house.session_files()
        kept = path.with_suffix(".kept")
        house.disk.rename(path, kept)
        assert await refused(wire, "session/flush", "errno", **TO_DISK) == "ENOENT"
        house.disk.rename(kept, path)
        assert await call(wire, "session/flush", **TO_DISK) == {"seq": 1, "durability": "disk"}


async def test_an_archived_session_can_be_flushed(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", persist="immediate")
        await append(wire, "n2", durability="os")
        await call(wire, "session/archive")
        assert await call(wire, "session/flush", **TO_DISK) == {"seq": 2, "durability": "disk"}
        left = house.disk.crash()
    (path,) = [one for one in left.paths if one.suffix == ".jsonl"]
    assert b'"n2"' in left.content(path)
