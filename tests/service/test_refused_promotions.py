"""A promotion that is refused has not happened, also where a foreign writer came first."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.json import encode

from sessiond.journal.disk.files import FileStat
from sessiond.testing.daemon import Wire
from tests.crash.harness.every_call import refusal_of
from tests.kit.calls import call, create_with, refused, session_info
from tests.kit.house import House
from tests.kit.sessions import SESSION, stored_message

pytestmark = pytest.mark.both_loops

UPDATE = {"persist": "immediate", "title": "t"}


# A line of a foreign writer, with a number in its id.
THEIRS = encode(stored_message("theirs-%d", None, content="theirs")) + b"\n"


async def check_a_draft(house: House, wire: Wire, path: Path) -> None:
    """Check that the session is a draft in this file."""
    info = await session_info(wire)
    assert (info["persisted"], info["persist"], info["title"]) == (False, "on_assistant", None)
    assert info["path"] == str(path)
    assert house.session_files() == [path]


@pytest.mark.parametrize("nth", [1, 2, 3])
async def test_a_refused_update_leaves_a_draft_where_it_was_though_a_foreign_line_came_first(
    house: House, nth: int
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "own")
        (path,) = house.session_files()
        assert path.parent == house.layout.pending
        house.disk.write_as_another(path, THEIRS % 1)
        house.disk.fail("fdatasync", nth=nth)
        refusal = await refusal_of(call(wire, "session/update", **UPDATE))
        house.disk.heal()
        assert (refusal is None) is (nth == 3)
        if refusal is not None:
            assert refusal.data["kind"] == "storage_error"
            await check_a_draft(house, wire, path)
            await call(wire, "session/update", **UPDATE)
        info = await session_info(wire)
        assert (info["persisted"], info["persist"], info["title"]) == (True, "immediate", "t")


async def test_an_update_that_a_foreign_line_makes_stale_leaves_a_draft_where_it_was(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "own")
        (path,) = house.session_files()
        assert path.parent == house.layout.pending
        house.disk.write_as_another(path, THEIRS % 1)
        stale = {**UPDATE, "expected": {"seq": 1}}
        assert await refused(wire, "session/update", **stale) == "precondition_failed"
        await check_a_draft(house, wire, path)


async def test_a_promotion_is_not_put_off_by_a_program_that_writes_all_the_time(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "own")
        (path,) = house.session_files()
        assert path.parent == house.layout.pending
        real, written = house.disk.stat, 0

        def stat(asked: Path) -> FileStat:
            nonlocal written
            if asked.name == path.name or SESSION in asked.name:
                written += 1
                if written <= 100:
                    house.disk.write_as_another(asked, THEIRS % written)
            return real(asked)

        monkeypatch.setattr(house.disk, "stat", stat)
        updated = await call(wire, "session/update", "session.{persisted,title}", **UPDATE)
        assert updated == (True, "t")
        assert written < 50
        monkeypatch.undo()
