"""Changes of the state store and of secrets, ended at every call into the disk.

At each call the process is killed, or the machine loses its power: what the next start finds is the
value before the change or the value behind it, and nothing else. An acknowledged change is there.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sessiond.testing.daemon import Wire
from sessiond.testing.disk import FaultDisk
from sessiond.testing.faults import Fault
from tests.kit.house import House

pytestmark = pytest.mark.files

NS = "settings"


@pytest.fixture
def house(home: Path) -> House:
    """Return a home on a disk in memory."""
    return House(home, FaultDisk(home))


class Moments:
    """The disks that an end at each call leaves behind, from now on."""

    def __init__(self, disk: FaultDisk) -> None:
        self.disks: list[tuple[str, FaultDisk]] = []
        """Those that differ, each with the call."""
        self.calls = 0
        self._seen: set[object] = set()
        self._disk = disk
        self._meet = disk.faults.meet

    def __enter__(self) -> Moments:
        self._disk.faults.meet = self._note  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        self._disk.faults.meet = self._meet  # type: ignore[method-assign]

    def _note(self, op: str) -> Fault | None:
        disk = self._disk
        self.calls += 1
        for left in (
            *(disk.kill(), disk.crash(), disk.crash(keep=40)),
            *(disk.crash(names=1), disk.crash(keep=10_000, names=10)),
        ):
            content = tuple((path, left.content(path)) for path in left.paths)
            if content not in self._seen:
                self._seen.add(content)
                self.disks.append((f"{self.calls} {op}", left))
        return self._meet(op)


@asynccontextmanager
async def after(house: House, disk: FaultDisk) -> AsyncGenerator[Wire]:
    """Yield a client of a daemon that starts on what is left."""
    next_house = House(house.home, disk)
    async with next_house.daemon(scanned=False) as daemon, daemon.connect() as wire:
        await daemon.service.secrets.resume()
        yield wire


async def value_of(wire: Wire, method: str, key: str = "a", namespace: str = NS) -> Any:
    return (await wire.call(method, namespace=namespace, key=key))["value"]


SETS: dict[str, Callable[[Wire, Any], Awaitable[Any]]] = {
    "state": lambda wire, value: wire.call("state/set", namespace=NS, key="a", value=value),
    "secret": lambda wire, value: wire.call("secret/set", namespace=NS, key="a", value=value),
}


@pytest.mark.parametrize("store", SETS)
@pytest.mark.parametrize("before", [None, "one"])
async def test_a_change_is_whole_or_not_there_at_all(
    house: House, store: str, before: str | None
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        if before is not None:
            await SETS[store](wire, before)
        with Moments(house.disk) as moments:
            await SETS[store](wire, "two")
        ends = [("answered", house.disk.kill()), ("answered", house.disk.crash())]
    found: set[Any] = set()
    for name, disk in [*moments.disks, *ends]:
        async with after(house, disk) as wire:
            value = await value_of(wire, f"{store}/get")
            assert value in ({"two"} if name == "answered" else {before, "two"}), name
            assert (await wire.call(f"{store}/list"))["aside"] == [], name
            await SETS[store](wire, "three")
            assert await value_of(wire, f"{store}/get") == "three", name
        found.add(value)
    assert found == {before, "two"}


async def test_a_rotation_is_finished_by_the_next_start(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await SETS["secret"](wire, "one")
        await wire.call("secret/set", namespace="other", key="b", value="two")
        with Moments(house.disk) as moments:
            await wire.call("secret/rotate")
        ends = [("answered", house.disk.crash())]
    assert moments.calls > 30
    counts: set[int] = set()
    for name, disk in [*moments.disks, *ends]:
        counts.add(len(keys_on(disk, house)))
        async with after(house, disk) as wire:
            assert await value_of(wire, "secret/get") == "one", name
            assert await value_of(wire, "secret/get", "b", "other") == "two", name
        assert len(keys_on(disk, house)) == 1, name
    assert counts == {1, 2}


def keys_on(disk: FaultDisk, house: House) -> list[bytes]:
    path = house.home.with_name(f"{house.home.name}.key")
    return [line for line in disk.content(path).split(b"\n") if len(line) == 64]
