"""A home with a long path: everything works, or the start says that the path is too long."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessiond.errors import StorageError
from sessiond.journal.disk.files import Files
from tests.kit.calls import call, create, say
from tests.kit.house import House
from tests.kit.long_paths import BEYOND_SQLITE, HOME_BYTES_MAX, deep
from tests.kit.opencode import database
from tests.kit.sessions import SESSION


@pytest.mark.parametrize("size", [BEYOND_SQLITE, HOME_BYTES_MAX])
async def test_a_search_finds_and_a_purge_forgets_although_sqlite_opens_no_path_that_long(
    tmp_path: Path, size: int
) -> None:
    house = House(deep(tmp_path, size), Files())
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        await say(wire, "words to be found")
    # The index that is not kept is made again.
    async with house.daemon() as daemon, daemon.connect() as wire:
        for more in ("first", "second"):
            (hit,) = (await wire.call("session/search", query="found"))["hits"]
            assert hit["session_id"] == SESSION
            await say(wire, f"{more} words that follow")
            assert len((await wire.call("session/search", query=more))["hits"]) == 1
        assert [one["id"] for one in (await wire.call("session/list"))["sessions"]] == [SESSION]
        await call(wire, "session/delete")
        await call(wire, "session/purge")
        assert (await wire.call("session/search", query="found"))["hits"] == []
    assert not list(house.layout.root.glob("*.sqlite*"))


async def test_a_home_that_leaves_no_room_for_names_is_refused_at_the_start(tmp_path: Path) -> None:
    home = deep(tmp_path, HOME_BYTES_MAX + 1)
    with pytest.raises(StorageError, match=f"more than {HOME_BYTES_MAX} leave no room") as refusal:
        async with House(home, Files()).daemon():
            pass
    assert refusal.value.data()["errno"] == "ENAMETOOLONG"


async def test_a_database_of_opencode_under_a_long_path_is_refused_with_the_reason(
    real_house: House, tmp_path: Path
) -> None:
    folder = deep(tmp_path, BEYOND_SQLITE + 30)
    folder.mkdir(parents=True)
    path = database(folder / "opencode.db")
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        refusal = await wire.refusal("session/import", path=str(path))
        assert (refusal.data["kind"], refusal.data["errno"]) == ("storage_error", "ENAMETOOLONG")
        assert "SQLite opens paths of at most 504 bytes" in refusal.message
