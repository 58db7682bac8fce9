"""Files that another program replaced by a file with another id: still one session for each path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from sessiond.catalog.schema import COLUMNS
from sessiond.testing.wire import Wire
from tests.kit.house import House
from tests.kit.roots import add_root, ids, pi_file, put

OLD, NEW = "session-old", "session-new"


def replace(path: Path) -> None:
    """Rename a file with another id and other content over the file."""
    other = path.with_name("other.tmp")
    other.write_bytes(pi_file(NEW, "replaced text", "b"))
    other.replace(path)


async def opened_at(wire: Wire, path: Path) -> Any:
    return (await wire.call("session/open", path=str(path)))["session"]


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
        before = await opened_at(wire, path)
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
    now = await opened_at(wire, path)
    assert now["id"] == OLD
    # A label is written only after a look at the file, and lists a file outside roots.
    await wire.call("session/label", session_id=OLD, entry_id="10000001", label="l")
    now = await opened_at(wire, path)
    assert (now["id"], now["lineage"]["header_id"]) == (OLD, NEW)
    assert now["epoch"] != old_epoch
    page = await wire.call("session/entries", session_id=OLD)
    assert page["entries"][0]["entry"]["message"]["content"] == "replaced text"
    refused = await wire.refusal("session/get", session_id=NEW)
    assert refused.data["kind"] == "session_not_found"
    found = (await wire.call("session/search", query="replaced text"))["hits"]
    assert (await ids(wire), [hit["session_id"] for hit in found]) == ([OLD], [OLD])


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
        assert (await opened_at(wire, path))["id"] == OLD
        assert await ids(wire) == [OLD]


@pytest.mark.parametrize("purged", [False, True])
async def test_a_file_in_the_place_of_a_deleted_one_is_another_session(
    real_house: House, tmp_path: Path, *, purged: bool, in_root: bool
) -> None:
    path = put(tmp_path.resolve() / "pi", "a", pi_file(OLD, "a", "b"))
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        if in_root:
            await add_root(wire, path.parent)
        await opened_at(wire, path)
        await wire.call("session/delete", session_id=OLD)
        if purged:
            await wire.call("session/purge", session_id=OLD)
        replace(path)
        assert await ids(wire) == ([NEW] if in_root else [])
        assert (await opened_at(wire, path))["id"] == NEW
        refused = await wire.refusal("session/get", session_id=OLD)
        assert refused.data["kind"] == "session_not_found"


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
        assert (await opened_at(wire, path))["id"] == NEW
        refused = await wire.refusal("session/get", session_id=OLD)
        assert refused.data["kind"] == "session_not_found"
