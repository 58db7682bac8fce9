"""Files outside the profile that were only read: in no list, but found by id and cursor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sessiond.testing.daemon import Wire
from tests.kit.calls import call, let_go, say, session_info
from tests.kit.house import House
from tests.kit.roots import ids
from tests.service.damage import GOOD

LISTED: dict[str, Any] = {"archived": None, "drafts": True}
"""Members that let a list show every session."""


@pytest.fixture
def chat(real_house: House, tmp_path: Path) -> Path:
    real_house.layout.make_folders(real_house.files)
    path = tmp_path / "chat.jsonl"
    path.write_bytes(GOOD)
    return path


async def opened(wire: Wire, path: Path) -> dict[str, Any]:
    session: dict[str, Any] = await call(wire, "session/open", "session", path=str(path))
    await wire.call("session/entries", session_id=session["id"])
    await wire.call("session/export", session_id=session["id"])
    return session


async def test_reading_lists_nothing_and_id_and_cursor_survive_a_restart(
    real_house: House, chat: Path
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        session = await opened(wire, chat)
        assert await ids(wire, **LISTED) == []
        assert (await wire.call("session/search", query="1.50"))["hits"] == []
        await wire.call("session/close", session_id=session["id"])
        assert await ids(wire, **LISTED) == []
    for _ in range(3):
        async with real_house.daemon() as daemon, daemon.connect() as wire:
            assert await ids(wire, **LISTED) == []
            found = (await wire.call("session/resolve", ref=session["id"]))["session"]
            assert (found["id"], found["path"]) == (session["id"], str(chat))
            cursor = {"seq": 1, "epoch": session["epoch"]}
            answer = await wire.call("subscribe", session_id=session["id"], after=cursor)
            assert "replaced" not in answer
            assert await ids(wire, **LISTED) == []


async def test_a_file_that_is_gone_keeps_its_id_and_epoch_until_it_is_back(
    real_house: House, chat: Path
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        session = await opened(wire, chat)
    away = chat.with_name("away")
    chat.rename(away)
    for _ in range(2):
        async with real_house.daemon() as daemon, daemon.connect() as wire:
            assert await ids(wire, **LISTED) == []
    away.rename(chat)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        again = await session_info(wire, session["id"])
        assert again["epoch"] == session["epoch"]


async def test_the_first_change_lists_it_until_it_is_gone_or_forgotten(
    real_house: House, chat: Path
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        session = await opened(wire, chat)
        await say(wire, "a rare word", session_id=session["id"])
        assert await ids(wire, **LISTED) == [session["id"]]
        await wire.call("session/close", session_id=session["id"])
        assert await ids(wire, **LISTED) == [session["id"]]
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await opened(wire, chat)
        assert await ids(wire, **LISTED) == [session["id"]]
        hits = await call(wire, "session/search", "hits[].session_id", query="rare")
        assert hits == [session["id"]]
        await wire.call("session/forget", session_id=session["id"])
        assert await ids(wire, **LISTED) == []
        await opened(wire, chat)
        assert await ids(wire, **LISTED) == []


async def test_what_was_changed_and_removed_by_its_user_leaves_the_lists(
    real_house: House, chat: Path
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        session = await opened(wire, chat)
        await say(wire, "a rare word", session_id=session["id"])
        assert await ids(wire, **LISTED) == [session["id"]]
        await let_go(daemon, wire, session["id"])
        chat.unlink()
        # The next look at all folders is due.
        real_house.seconds += 3600.0
        assert await ids(wire, **LISTED) == []
