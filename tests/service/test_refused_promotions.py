"""A promotion that is refused has not happened, also where a foreign writer came first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessiond.journal.disk.files import FileStat
from sessiond.testing.daemon import Refusal, Wire
from tests.crash.harness.every_call import refusal_of
from tests.kit.calls import create, session_info
from tests.kit.house import House
from tests.kit.sessions import SESSION


def theirs(number: int) -> bytes:
    entry = {
        "type": "message",
        "id": f"theirs-{number}",
        "parent_id": None,
        "timestamp": "2026-01-15T11:00:00.000Z",
        "message": {"role": "user", "content": "theirs"},
    }
    return json.dumps(entry).encode() + b"\n"


async def draft(house: House, wire: Wire) -> Path:
    """Make a draft with an entry; its file is given."""
    await create(wire)
    await wire.call(
        "append",
        session_id=SESSION,
        entry={"type": "message", "id": "own", "message": {"role": "user"}},
    )
    (path,) = house.session_files()
    assert path.parent == house.layout.pending
    return path


async def update(wire: Wire) -> Any:
    return await wire.call("session/update", session_id=SESSION, persist="immediate", title="t")


async def check_a_draft(house: House, wire: Wire, path: Path) -> None:
    info = await session_info(wire)
    assert (info["persisted"], info["persist"], info["title"]) == (False, "on_assistant", None)
    assert info["path"] == str(path)
    assert house.session_files() == [path]


@pytest.mark.parametrize("nth", [1, 2, 3])
async def test_a_refused_update_leaves_a_draft_where_it_was_though_a_foreign_line_came_first(
    house: House, nth: int
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        path = await draft(house, wire)
        house.disk.write_as_another(path, theirs(1))
        house.disk.fail("fdatasync", nth=nth)
        refusal = await refusal_of(update(wire))
        house.disk.heal()
        assert (refusal is None) is (nth == 3)
        if refusal is not None:
            assert refusal.data["kind"] == "storage_error"
            await check_a_draft(house, wire, path)
            await update(wire)
        info = await session_info(wire)
        assert (info["persisted"], info["persist"], info["title"]) == (True, "immediate", "t")


async def test_an_update_that_a_foreign_line_makes_stale_leaves_a_draft_where_it_was(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        path = await draft(house, wire)
        house.disk.write_as_another(path, theirs(1))
        with pytest.raises(Refusal) as caught:
            await wire.call(
                "session/update",
                session_id=SESSION,
                persist="immediate",
                title="t",
                expected={"seq": 1},
            )
        assert caught.value.data["kind"] == "precondition_failed"
        await check_a_draft(house, wire, path)


async def test_a_promotion_is_not_put_off_by_a_program_that_writes_all_the_time(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        path = await draft(house, wire)
        real, written = house.disk.stat, 0

        def stat(asked: Path) -> FileStat:
            nonlocal written
            if asked.name == path.name or SESSION in asked.name:
                written += 1
                if written <= 100:
                    house.disk.write_as_another(asked, theirs(written))
            return real(asked)

        monkeypatch.setattr(house.disk, "stat", stat)
        answer = await wire.call(
            "session/update", session_id=SESSION, persist="immediate", title="t"
        )
        assert (answer["session"]["persisted"], answer["session"]["title"]) == (True, "t")
        assert written < 50
        monkeypatch.undo()
