"""Half lines at the end of an opened file: their origin decides what happens to them."""

from __future__ import annotations

from contextlib import suppress

import pytest

from sessiond.testing.daemon import Refusal
from tests.kit.calls import call, let_go, session_info
from tests.kit.house import House
from tests.kit.limits import set_limits
from tests.service.damage import GOOD, line, part

THEIRS = line(b"f1", b'"n2"')
HALF = THEIRS[:40]
USER = {"role": "user", "content": "ours"}
BEGINNINGS = {
    "as sessiond begins a line": HALF,
    "with blanks, as Python's json does": b'{"type": "message", "id": "f1", "par',
    "one byte": b"{",
    "no JSON at all": b"\xff\xfe half",
}


def torn_copies(house: House) -> list[bytes]:
    return [house.disk.content(path) for path in house.disk.paths if ".torn-" in path.name]


@pytest.mark.parametrize("begins", BEGINNINGS)
async def test_a_foreign_half_line_that_an_opening_finds_is_closed_and_its_rest_refuses_no_append(
    house: House, begins: str
) -> None:
    half = BEGINNINGS[begins]
    path = house.put(GOOD)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await call(wire, "append", message=USER)
        before = await session_info(wire)
    house.disk.write_as_another(path, half)
    house.disk.seconds += 60.0
    stored = house.disk.content(path)
    async with house.daemon() as daemon, daemon.connect() as wire:
        found = await session_info(wire)
        assert (found["read_only"], found["problems"]) == (False, 1)
        assert (found["seq"], found["epoch"]) == (before["seq"], before["epoch"])
        # Whoever only reads leaves it; the first change closes it.
        assert house.disk.content(path) == stored
        answer = await call(wire, "append", message=USER)
        assert answer["seq"] == before["seq"] + 2
        # The other program goes on.
        house.disk.write_as_another(path, THEIRS[40:])
        answer = await call(wire, "append", message=USER)
        assert answer["seq"] == before["seq"] + 4
        live = await session_info(wire)
        assert (live["read_only"], live["problems"]) == (False, 2)
    assert house.disk.content(path).startswith(stored + b" \n")
    assert THEIRS[40:] in house.disk.content(path)
    assert torn_copies(house) == []
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await session_info(wire) == live


async def test_a_half_line_is_treated_alike_by_an_open_session_and_by_an_opening(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, HALF_LINE_SECONDS=0.05)
    contents: list[bytes] = []
    for is_open in (True, False):
        house.files = type(house.disk)(house.home)
        path = house.put(GOOD)
        async with house.daemon() as daemon, daemon.connect() as wire:
            await call(wire, "append", message={"role": "user"})
            if not is_open:
                await let_go(daemon, wire)
            house.disk.write_as_another(path, HALF)
            await call(wire, "append", message={"role": "user"})
            found = await session_info(wire)
            assert (found["seq"], found["problems"], found["read_only"]) == (5, 1, False)
        contents.append(house.disk.content(path).split(b"\n")[4])
    assert contents == [HALF + b" "] * 2


@pytest.mark.parametrize("zeros", [0, 7])
async def test_half_a_line_that_a_power_cut_left_is_copied_aside_and_cut(
    house: House, zeros: int
) -> None:
    path = house.put(GOOD)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await call(wire, "append", message=USER)
        stored = house.disk.content(path)
        # A write that is under way when the power goes.
        house.disk.write_as_another(path, stored.splitlines()[-1])
        house.files = house.disk.crash(keep=30, zeros=zeros)
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert (await session_info(wire))["problems"] == 1
        await call(wire, "session/label", entry_id="n1", label="x")
    assert house.disk.content(path).startswith(stored + b'{"type":"label"')
    assert torn_copies(house) == [stored.splitlines()[-1][:30] + bytes(zeros)]


async def test_half_a_line_that_a_killed_daemon_left_is_copied_aside_and_cut(house: House) -> None:
    path = house.put(GOOD)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await call(wire, "append", message=USER)
        stored = house.disk.content(path)
        half = stored.splitlines()[-1][:30]
        house.disk.write_as_another(path, half)
        house.files = house.disk.kill()
        house.disk.seconds += 60.0
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert (await session_info(wire))["problems"] == 1
    # Nobody has changed it, and the next opening knows what this one knew.
    assert (house.disk.content(path), torn_copies(house)) == (stored + half, [])
    async with house.daemon() as daemon, daemon.connect() as wire:
        await call(wire, "session/label", entry_id="n1", label="x")
    assert torn_copies(house) == [half]
    assert house.disk.content(path).startswith(stored + b'{"type":"label"')


async def test_half_a_line_behind_half_an_append_of_ours_is_cut_with_it(house: House) -> None:
    path = house.put(GOOD + part(1) + part(2)[:30])
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert (await session_info(wire))["seq"] == 2
        await call(wire, "session/label", entry_id="n1", label="x")
    assert house.disk.content(path).startswith(GOOD + b'{"type":"label"')
    assert torn_copies(house) == [part(1) + part(2)[:30]]


async def test_a_half_line_that_begins_as_no_line_of_ours_is_closed_also_after_a_kill(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, HALF_LINE_SECONDS=0.05)
    half = BEGINNINGS["with blanks, as Python's json does"]
    path = house.put(GOOD + half, killed=True)
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert (await session_info(wire))["read_only"] is False
        await call(wire, "session/label", entry_id="n1", label="x")
    assert house.disk.content(path).startswith(GOOD + half + b' \n{"type":"label"')


async def test_an_opening_that_fails_leaves_the_next_one_what_it_knew(house: House) -> None:
    nth, failed = 0, True
    async with house.daemon() as daemon, daemon.connect() as wire:
        while failed:
            nth += 1
            house.put(GOOD + HALF, f"session-{nth}", killed=True)
            fault = house.disk.fail(None, nth=nth)
            request = await wire.request("session/get", session_id=f"session-{nth}")
            with suppress(Refusal):
                await wire.answer(request)
            failed = fault.hit
            house.disk.heal()
            found = await wire.call("session/get", session_id=f"session-{nth}")
            assert found["session"]["seq"] == 2, (nth, fault.met)
    assert nth > 10


async def test_a_half_line_that_its_program_goes_on_with_before_any_change_is_one_line(
    house: House,
) -> None:
    path = house.put(GOOD + HALF)
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert (await session_info(wire))["problems"] == 1
        house.disk.write_as_another(path, THEIRS[40:])
        answer = await call(wire, "append", message=USER)
        found = await session_info(wire)
        assert (answer["seq"], found["problems"], found["read_only"]) == (4, 0, False)
    assert house.disk.content(path).startswith(GOOD + THEIRS)
