"""Failed syncs with failed repairs: found lines are durable before an opening acknowledges them."""

from __future__ import annotations

import pytest

from sessiond.testing.daemon import Refusal, Wire
from sessiond.testing.disk import FaultDisk
from tests.kit.calls import append, call, create
from tests.kit.house import House
from tests.kit.sessions import SESSION

pytestmark = pytest.mark.both_loops

PI_HEADER = (
    b'{"type":"session","version":3,"id":"%s","timestamp":"2026-01-15T10:30:00.000Z","cwd":"/p"}\n'
) % SESSION.encode()


async def refused(disk: FaultDisk, wire: Wire, entry_id: str) -> None:
    """Append without success: neither the sync nor the repairs that follow work."""
    disk.fail("fdatasync")
    for nth in (1, 2, 3):
        disk.fail("open_append", nth=nth)
    with pytest.raises(Refusal) as caught:
        await append(wire, entry_id)
    assert caught.value.data["kind"] == "storage_error"


async def retry_and_cut_the_power(house: House) -> list[str]:
    """Return the ids of the entries found after a retry, another append and a power cut."""
    house.disk.heal()
    async with house.daemon() as daemon, daemon.connect() as wire:
        answer = await append(wire, "lost")
        assert (answer["duplicate"], answer["durability"]) == (True, "disk")
        assert (await append(wire, "next"))["durability"] == "disk"
        rebooted = house.disk.crash()
    house.files = rebooted
    async with house.daemon() as daemon, daemon.connect() as wire:
        found: list[str] = await call(wire, "session/entries", "entries[].entry.id", after_seq=0)
        return found


@pytest.mark.parametrize("content", [b"", PI_HEADER], ids=["native", "foreign"])
async def test_a_retry_after_a_kill_is_durable_although_its_sync_failed_before_the_kill(
    house: House, content: bytes
) -> None:
    if content:
        house.put(content)
    async with house.daemon() as daemon, daemon.connect() as wire:
        if not content:
            await create(wire, persist="immediate")
        await append(wire, "first")
        await refused(house.disk, wire, "lost")
        orphaned = house.disk.kill()
        house.disk.heal()
    house.files = orphaned
    assert await retry_and_cut_the_power(house) == ["first", "lost", "next"]


async def test_a_retry_after_a_close_is_durable_although_its_sync_failed_before_the_close(
    house: House,
) -> None:
    house.put(PI_HEADER)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await append(wire, "first")
        await refused(house.disk, wire, "lost")
        await wire.call("session/close", session_id=SESSION)
    assert await retry_and_cut_the_power(house) == ["first", "lost", "next"]


async def test_a_retry_after_a_delete_that_was_taken_back_is_durable(house: House) -> None:
    path = house.put(PI_HEADER)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await append(wire, "first")
        await refused(house.disk, wire, "lost")
        await wire.call("session/delete", session_id=SESSION)
        house.disk.heal()
        (trashed,) = (one for one in house.disk.paths if one.parent == house.layout.trash)
        house.disk.rename(trashed, path)
        house.disk.fsync_folder(path.parent)
        house.disk.fsync_folder(trashed.parent)
    assert await retry_and_cut_the_power(house) == ["first", "lost", "next"]
