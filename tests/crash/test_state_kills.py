"""Changes of the state store and of secrets, ended at every call into the disk.

At each call the process is killed, or the machine loses its power: what the next start finds is the
value before the change or the value behind it, and nothing else. An acknowledged change is there.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from sessiond.journal.profile.names import unfinished_key_name, unfinished_name
from sessiond.state.key_file import KeyFile
from sessiond.state.keys import Key
from sessiond.testing.daemon import Wire
from sessiond.testing.disk import FaultDisk
from sessiond.testing.faults import Fault
from tests.kit.house import House

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


# -- key files ----------------------------------------------------------------------------------

KEYS = [Key(bytes([number]) * 32) for number in (1, 2, 3)]

MAKES: dict[str, Callable[[KeyFile], object]] = {
    "the first key": lambda file: file.create(KEYS[0]),
    "a rotation": lambda file: file.write([KEYS[1], KEYS[0]]),
}


@pytest.mark.parametrize("make", MAKES)
def test_a_key_file_that_a_kill_left_unfinished_is_removed_by_the_next_one(
    house: House, make: str
) -> None:
    path = key_path(house)
    strange = files_of_users(house.disk, path)
    if make == "a rotation":
        KeyFile(house.disk, path, house.home).create(KEYS[0])
    with Moments(house.disk) as moments:
        MAKES[make](KeyFile(house.disk, path, house.home))
    left_behind: set[int] = set()
    for name, disk in moments.disks:
        file = KeyFile(disk, path, house.home)
        left_behind.add(len(file.unfinished()))
        found = file.read()
        file.remove_unfinished()
        assert file.unfinished() == [], name
        assert told(file.read()) == told(found), name
        file.write([KEYS[2]])
        assert told(file.read()) == told([KEYS[2]]), name
        beside = {one for one in disk.paths if one.parent == path.parent}
        assert beside == {path, *strange}, name
        assert {one: disk.content(one) for one in strange} == strange, name
    assert left_behind == {0, 1}


def test_making_a_key_file_removes_what_a_kill_left(house: House) -> None:
    path = key_path(house)
    with Moments(house.disk) as moments:
        KeyFile(house.disk, path, house.home).create(KEYS[0])
    for name, disk in moments.disks:
        file = KeyFile(disk, path, house.home)
        file.write([KEYS[1]])
        assert [one for one in disk.paths if one.parent == path.parent] == [path], name


def test_a_key_file_that_another_daemon_makes_now_is_left_to_it(home: Path) -> None:
    path = home.with_name("shared.key")
    for at in count(1):
        disk = FaultDisk(home)
        file = KeyFile(disk, path, home)
        other = Meanwhile(disk, at, KeyFile(disk, path, home).remove_unfinished)
        file.create(KEYS[0])
        file.write([KEYS[1], KEYS[0]])
        assert told(file.read()) == told([KEYS[1], KEYS[0]])
        assert [one for one in disk.paths if one.parent == path.parent] == [path]
        if other.calls < at:
            break
    assert at > 20


class Meanwhile:
    """An action of another daemon right before a call into the disk."""

    def __init__(self, disk: FaultDisk, at: int, act: Callable[[], None]) -> None:
        self.calls = 0
        self._at = at
        self._act = act
        self._meet = disk.faults.meet
        disk.faults.meet = self._note  # type: ignore[method-assign]

    def _note(self, op: str) -> Fault | None:
        self.calls += 1
        if self.calls == self._at:
            self._act()
        return self._meet(op)


async def test_a_start_with_secrets_removes_an_unfinished_key_file(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await SETS["secret"](wire, "one")
    path = key_path(house)
    strange = files_of_users(house.disk, path)
    house.disk.put(path.with_name(unfinished_key_name(path.name, "7" * 32)), b"half a key")
    async with after(house, house.disk) as wire:
        assert await value_of(wire, "secret/get") == "one"
    beside = {one for one in house.disk.paths if one.parent == path.parent}
    assert beside == {path, *strange}


def files_of_users(disk: FaultDisk, path: Path) -> dict[Path, bytes]:
    """Put files beside a key file that no daemon made for it; return their content."""
    names = [
        unfinished_name("f" * 32),
        unfinished_key_name("another.key", "e" * 32),
        f"{unfinished_key_name(path.name, 'd' * 32)}~",
        f"{path.name}.new",
    ]
    content = {path.with_name(name): name.encode() for name in names}
    for one, data in content.items():
        disk.put(one, data)
    return content


def told(keys: list[Key] | None) -> list[str] | None:
    return None if keys is None else [key.id for key in keys]


def keys_on(disk: FaultDisk, house: House) -> list[bytes]:
    return [line for line in disk.content(key_path(house)).split(b"\n") if len(line) == 64]


def key_path(house: House) -> Path:
    return house.home.with_name(f"{house.home.name}.key")
