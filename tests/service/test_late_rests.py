"""The rest of a foreign line whose beginning was cut: no session is read-only for it, and no line is lost."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.kit.calls import call, say, session_info
from tests.kit.house import House
from tests.kit.limits import set_limits
from tests.service.damage import GOOD, line

THEIRS = line(b"f1", b'"n2"')
# Inside a key, a string and a number of bytes that sessiond's own lines have too; before a brace; before the end.
CUTS = [2, 9, 40, THEIRS.index(b'{"role"'), len(THEIRS) - 3]


@pytest.mark.parametrize("pieces", [1, 2])
@pytest.mark.parametrize("cut", CUTS)
async def test_a_rest_that_comes_after_its_beginning_was_cut_is_a_bad_line_and_refuses_no_append(
    house: House, cut: int, pieces: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, HALF_LINE_SECONDS=0.05)
    path = house.put(GOOD)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await say(wire, "one")
        house.disk.write_as_another(path, THEIRS[:cut])
        # The daemon is killed, so that its record says nothing of the half line of another program.
        house.files = house.disk.kill()
        house.disk.seconds += 60.0
    async with house.daemon() as daemon, daemon.connect() as wire:
        await say(wire, "two")
        assert any(".torn-" in one.name for one in house.disk.paths)
        ends = [cut, cut + 1, len(THEIRS)] if pieces > 1 else [cut, len(THEIRS)]
        for start, end in pairwise(ends):
            # An append between two pieces closes the first.
            house.disk.write_as_another(path, THEIRS[start:end])
            await say(wire, "three")
            assert (await session_info(wire))["read_only"] is False
    async with house.daemon() as daemon, daemon.connect() as wire:
        found = await session_info(wire)
        assert (found["read_only"], found["problems"]) == (False, pieces)
        await say(wire, "four")
        said = await call(wire, "session/entries", "entries[].entry.message.content")
        assert said == ["1.50", "1.50", "one", "two", *["three"] * pieces, "four"]
        kinds = await call(wire, "session/verify", "problems[].kind")
        assert kinds == ["bad_line"] * pieces
        await call(wire, "session/archive")
        assert (await session_info(wire))["read_only"] is False


async def test_a_rest_that_comes_after_a_start_of_the_machine_refuses_no_append(
    house: House,
) -> None:
    path = house.put(GOOD)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await say(wire, "one")
    house.disk.write_as_another(path, THEIRS[:40])
    house.files = house.disk.crash(keep=40)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await say(wire, "two")
        house.disk.write_as_another(path, THEIRS[40:])
        await say(wire, "three")
        assert (await session_info(wire))["read_only"] is False
