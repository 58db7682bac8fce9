"""File systems whose inode numbers do not stay, as FUSE may have them: a file is known by what it holds."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from msgspec import structs

from sessiond.limits import WATCH_POLL_SECONDS
from sessiond.service.external.watcher import PollingWatcher, Unwatched
from tests.kit.calls import append, call, events, let_go, never, session_info, watch
from tests.kit.clock import let_pass
from tests.kit.house import House
from tests.kit.sessions import SESSION
from tests.service.test_foreign_writers import HEADERS, begun, line

pytestmark = [pytest.mark.both_loops, pytest.mark.usefixtures("clock")]

Renumber = Callable[[House], None]


def renumbered(found: Any, number: int) -> Any:
    """Return what a look found with another number of the file."""
    return structs.replace(found, st_ino=number)


def at_each_call(house: House) -> None:
    """Give a file another number at each call that asks for one."""
    numbers = count(1000)

    def with_another(function: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*arguments: Any) -> Any:
            return renumbered(function(*arguments), next(numbers))

        return ask

    for name in ("stat", "lstat", "fstat"):
        setattr(house.disk, name, with_another(getattr(house.disk, name)))
    stats = house.disk.stats
    house.disk.stats = lambda folder: {  # type: ignore[method-assign]
        name: renumbered(found, next(numbers)) for name, found in stats(folder).items()
    }


def by_descriptor(house: House) -> None:
    """Give a file one number under its name, and another one for each descriptor."""
    fstat = house.disk.fstat

    def ask(fd: int) -> Any:
        return renumbered(fstat(fd), fd + 1000)

    house.disk.fstat = ask  # type: ignore[method-assign]


def at_each_lookup(house: House) -> None:
    """Give a file another number at each look by its name; a descriptor keeps the number."""
    fstat, numbers = house.disk.fstat, count(1000)
    at_each_call(house)
    given: dict[int, int] = {}

    def ask(fd: int) -> Any:
        found = fstat(fd)
        return renumbered(found, given.setdefault(fd, next(numbers)))

    house.disk.fstat = ask  # type: ignore[method-assign]


@pytest.fixture(params=[at_each_call, at_each_lookup, by_descriptor])
def restless(request: pytest.FixtureRequest, house: House) -> House:
    """Return a house whose disk has restless numbers."""
    request.param(house)
    return house


async def test_foreign_lines_are_events_and_the_file_stays_the_same(restless: House) -> None:
    house = restless
    path = begun(house, "native")
    async with house.daemon(PollingWatcher(house.disk)) as daemon, daemon.connect() as wire:
        epoch = await call(wire, "session/open", "session.epoch", session_id=SESSION)
        async with daemon.connect() as other:
            await watch(other)
            parent = "aaaaaaa2"
            for number in range(3):
                house.disk.write_as_another(path, line("native", f"bbbbbbb{number}", parent))
                parent = f"bbbbbbb{number}"
                await let_pass(4 * WATCH_POLL_SECONDS)
                assert await events(other, 1) == [(parent, 3 + number)]
            assert (await append(wire, "ours"))["seq"] == 6
            assert await events(other, 1) == [("ours", 6)]
            await let_pass(8 * WATCH_POLL_SECONDS)
            await never(other)
        assert (await session_info(wire))["epoch"] == epoch
        assert house.disk.open_descriptors <= 4


async def test_bytes_that_are_told_before_they_are_given_are_read_later(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FUSE may know the size of a file by its name before a descriptor of the file reads so far."""
    path = begun(house, "native")
    async with house.daemon(PollingWatcher(house.disk)) as daemon, daemon.connect() as wire:
        await watch(wire)
        await let_pass(8 * WATCH_POLL_SECONDS)
        pread, end = house.disk.pread, house.disk.stat(path).st_size

        def stale(fd: int, size: int, offset: int) -> bytes:
            return pread(fd, min(size, max(0, end - offset)), offset)

        with monkeypatch.context() as patch:
            patch.setattr(house.disk, "pread", stale)
            house.disk.write_as_another(path, line("native", "bbbbbbb1", "aaaaaaa2"))
            await let_pass(2 * WATCH_POLL_SECONDS)
            await never(wire)
        await let_pass(2 * WATCH_POLL_SECONDS)
        assert await events(wire, 1) == [("bbbbbbb1", 3)]


async def test_a_file_of_fuse_keeps_its_epoch_over_a_mount(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = begun(house, "native")
    monkeypatch.setattr(house.disk, "is_local", lambda _path: False)
    epochs = list[str]()
    for number in range(2):
        async with house.daemon() as daemon, daemon.connect() as wire:
            await append(wire, f"ours-{number}")
            epochs.append((await session_info(wire))["epoch"])
        # As after a mount: the same bytes have another number.
        found = house.disk.content(path)
        house.disk.put(path, found)
    assert epochs[0] == epochs[1]


async def test_without_notices_the_next_write_takes_foreign_lines(restless: House) -> None:
    house = restless
    path = begun(house, "native")
    async with house.daemon(Unwatched()) as daemon, daemon.connect() as wire:
        epoch = (await watch(wire))["epoch"]
        house.disk.write_as_another(path, line("native", "bbbbbbb1", "aaaaaaa2"))
        assert (await append(wire, "ours"))["seq"] == 4
        assert await events(wire, 2) == [("bbbbbbb1", 3), ("ours", 4)]
        await let_go(daemon, wire)
        house.disk.write_as_another(path, line("native", "bbbbbbb2", "ours"))
        info = await session_info(wire)
        assert (info["epoch"], info["seq"]) == (epoch, 5)
        for _ in range(2):
            assert len((await call(wire, "session/list"))["sessions"]) == 1
    # The next daemon has other numbers for all files.
    async with house.daemon(Unwatched()) as daemon, daemon.connect() as wire:
        assert (await session_info(wire))["epoch"] == epoch
        assert (await append(wire, "later"))["seq"] == 6


async def test_a_file_that_was_replaced_is_still_found(restless: House) -> None:
    house = restless
    path = begun(house, "native")
    async with house.daemon(PollingWatcher(house.disk)) as daemon, daemon.connect() as wire:
        epoch = (await watch(wire))["epoch"]
        other = path.with_name("another")
        house.disk.put(other, HEADERS["native"] + line("native", "cccccccc", None) + b"\n" * 500)
        house.disk.rename(other, path)
        await let_pass(4 * WATCH_POLL_SECONDS)
        assert (await events(wire, 1))[0] == ("replaced", "epoch")
        info = await session_info(wire)
        assert info["epoch"] != epoch
        assert info["leaf_id"] == "cccccccc"
