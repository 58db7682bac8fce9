"""Files that another program replaced by a file with another id: still one session for each path."""

from __future__ import annotations

from pathlib import Path

import pytest
from anyio import to_thread

from sessiond.catalog.schema import COLUMNS
from sessiond.testing.wire import Wire
from tests.kit.calls import call, refused
from tests.kit.house import House
from tests.kit.roots import add_root, ids, pi_file, put

pytestmark = [pytest.mark.both_loops, pytest.mark.platform]

OLD, NEW = "session-old", "session-new"


def replace(path: Path) -> None:
    """Rename a file with another id and other content over the file."""
    other = path.with_name("other.tmp")
    other.write_bytes(pi_file(NEW, "replaced text", "b"))
    other.replace(path)


@pytest.fixture(params=["in a root", "outside roots"])
def in_root(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "in a root")


@pytest.mark.parametrize("state", ["open", "closed", "restarted"])
async def test_a_replaced_file_is_the_same_session_under_a_new_epoch(
    real_house: House, tmp_path: Path, state: str, *, in_root: bool
) -> None:
    path = put(tmp_path.resolve() / "pi", "a", pi_file(OLD, "a", "b"))
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        if in_root:
            await add_root(wire, path.parent)
        before = await call(wire, "session/open", "session", path=str(path))
        assert before["id"] == OLD
        if state == "open":
            replace(path)
        else:
            await wire.call("session/close", session_id=OLD)
        if state == "closed":
            replace(path)
        if state != "restarted":
            await check(wire, path, before["epoch"])
    if state == "restarted":
        replace(path)
    # A start changes nothing.
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await check(wire, path, before["epoch"])


async def check(wire: Wire, path: Path, old_epoch: str) -> None:
    """Check that the file is one session under its old id, with the new file's content."""
    assert await call(wire, "session/open", "session.id", path=str(path)) == OLD
    # A label is written only after a look at the file, and lists a file outside roots.
    await wire.call("session/label", session_id=OLD, entry_id="10000001", label="l")
    now = await call(wire, "session/open", "session", path=str(path))
    assert (now["id"], now["lineage"]["header_id"]) == (OLD, NEW)
    assert now["epoch"] != old_epoch
    entries = await call(wire, "session/entries", "entries[].entry", session_id=OLD)
    assert entries[0]["message"]["content"] == "replaced text"
    assert await refused(wire, "session/get", session_id=NEW) == "session_not_found"
    found = await call(wire, "session/search", "hits[].session_id", query="replaced text")
    assert (await ids(wire), found) == ([OLD], [OLD])


async def test_a_replaced_file_that_a_link_leads_to_is_the_same_session_while_open(
    real_house: House, tmp_path: Path
) -> None:
    path = put(tmp_path.resolve() / "there", "a", pi_file(OLD, "a", "b"))
    root = tmp_path.resolve() / "root"
    root.mkdir()
    (root / "link.jsonl").symlink_to(path)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        assert await ids(wire) == [OLD]
        await wire.call("session/open", session_id=OLD)
        replace(path)
        assert await call(wire, "session/open", "session.id", path=str(path)) == OLD
        assert await ids(wire) == [OLD]


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("purged", [False, True])
async def test_a_file_in_the_place_of_a_deleted_one_is_another_session(
    real_house: House, tmp_path: Path, *, purged: bool, listed: bool, in_root: bool
) -> None:
    path = put(tmp_path.resolve() / "pi", "a", pi_file(OLD, "a", "b"))
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        if in_root:
            await add_root(wire, path.parent)
        if listed:
            assert await ids(wire) == ([OLD] if in_root else [])
        await call(wire, "session/open", "session", path=str(path))
        await wire.call("session/delete", session_id=OLD)
        if purged:
            await wire.call("session/purge", session_id=OLD)
        replace(path)
        assert await ids(wire) == ([NEW] if in_root else [])
        assert await call(wire, "session/open", "session.id", path=str(path)) == NEW
        assert await refused(wire, "session/get", session_id=OLD) == "session_not_found"


async def test_a_file_that_an_older_version_listed_twice_is_one_session_after_a_start(
    real_house: House, tmp_path: Path
) -> None:
    path = put(tmp_path.resolve() / "pi", "a", pi_file(NEW, "a", "b"))
    rest = COLUMNS.removeprefix("session_id, ").removesuffix(", info")
    again = (
        f"INSERT INTO sessions (session_id, {rest}, info) SELECT ?, {rest},"
        " CAST(replace(CAST(info AS TEXT), session_id, ?) AS BLOB) FROM sessions"
    )
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, path.parent)
        assert await ids(wire) == [NEW]
        ask = daemon.store.catalog.ask
        await to_thread.run_sync(ask, lambda connection: connection.execute(again, (OLD, OLD)))
        rows = await to_thread.run_sync(daemon.store.catalog.all)
        assert {row.session_id for row in rows if row.listed} == {NEW, OLD}
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        assert await ids(wire) == [NEW]
        assert await call(wire, "session/open", "session.id", path=str(path)) == NEW
        assert await refused(wire, "session/get", session_id=OLD) == "session_not_found"
