"""Restore: a deleted session comes back to its old path, whole, and replaces no file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sessiond.testing.daemon import Wire
from tests.kit.calls import create, session_info
from tests.kit.house import House
from tests.kit.sessions import SESSION
from tests.service.damage import GOOD, line

pytestmark = pytest.mark.one_loop

USER = {"role": "user", "content": "hi"}
ANSWER = {"role": "assistant", "content": "there"}


async def delete(wire: Wire, session_id: str = SESSION) -> None:
    assert await wire.call("session/delete", session_id=session_id) == {}


async def restore(wire: Wire, session_id: str = SESSION) -> dict[str, Any]:
    session: dict[str, Any] = (await wire.call("session/restore", session_id=session_id))["session"]
    return session


async def trashed(wire: Wire) -> list[dict[str, Any]]:
    sessions: list[dict[str, Any]] = (await wire.call("session/trash"))["sessions"]
    return sessions


def in_trash(house: House) -> list[str]:
    return [path.name for path in house.disk.paths if path.parent == house.layout.trash]


@pytest.mark.parametrize("restart", [False, True], ids=["", "after a restart"])
@pytest.mark.parametrize("state", ["immediate", "on_assistant", "archived"])
async def test_a_deleted_session_comes_back_as_it_was(
    house: House, state: str, *, restart: bool
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        persist = "immediate" if state == "archived" else state
        await create(wire, persist=persist, title="t")
        sent = await wire.call("append", session_id=SESSION, message=USER)
        if state == "archived":
            await wire.call("session/archive", session_id=SESSION)
        before = await session_info(wire)
        await delete(wire)
        (one,) = await trashed(wire)
        assert (one["session_id"], one["title"], one["cwd"]) == (SESSION, "t", "/p")
        assert one["origin"] == before["path"]
        if not restart:
            assert await restore(wire) == before
    if restart:
        async with house.daemon() as daemon, daemon.connect() as wire:
            assert await restore(wire) == before
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await trashed(wire) == []
        assert in_trash(house) == []
        # Cursors of before go on, and lists show it.
        cursor = {"seq": sent["seq"], "epoch": before["epoch"]}
        answer = await wire.call("subscribe", session_id=SESSION, after=cursor)
        assert "replaced" not in answer
        listed = await wire.call("session/list", drafts=True, archived=None)
        assert [session["id"] for session in listed["sessions"]] == [SESSION]


async def test_a_restore_survives_a_power_cut(house: House) -> None:
    path = house.put(GOOD)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await delete(wire)
        await restore(wire)
        house.files = house.disk.crash()
    assert house.disk.content(path) == GOOD
    assert in_trash(house) == []


async def test_torn_ends_come_back_and_copies_from_before_a_repair_stay(house: House) -> None:
    path = house.put(GOOD + b"no line\n" + line(b"n3", b'"n2"') + b'{"type":"mess\0')
    async with house.daemon() as daemon, daemon.connect() as wire:
        await wire.call("session/repair", session_id=SESSION, dry_run=False)
        (backup,) = in_trash(house)
        await wire.call("session/close", session_id=SESSION)
        house.disk.write_as_another(path, b'{"type":"mess\0')
        await wire.call("append", session_id=SESSION, message=USER)
        (torn,) = [one for one in house.disk.paths if ".torn-" in one.name]
        content = house.disk.content(torn)
        await delete(wire)
        assert len(in_trash(house)) == 3
        await restore(wire)
        assert in_trash(house) == [backup]
        assert house.disk.content(torn) == content


async def test_a_file_that_cannot_be_opened_comes_back_and_the_refusal_says_so(
    house: House,
) -> None:
    path = house.put(GOOD)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await delete(wire)
        (name,) = in_trash(house)
        house.disk.put(house.layout.trash / name, b"no session at all\n")
        refused = await wire.refusal("session/restore", session_id=SESSION)
        assert refused.data["kind"] == "session_corrupt"
        assert "was restored" in refused.message
        assert house.session_files() == [path]
        refused = await wire.refusal("session/restore", session_id=SESSION)
        assert refused.data["kind"] == "session_exists"


async def test_nothing_is_replaced_and_nothing_is_lost(house: House) -> None:
    path = house.put(GOOD)
    async with house.daemon() as daemon, daemon.connect() as wire:
        refused = await wire.refusal("session/restore", session_id=SESSION)
        assert refused.data["kind"] == "session_exists"
        await delete(wire)
        await create(wire, persist="immediate")
        for _ in range(2):
            refused = await wire.refusal("session/restore", session_id=SESSION)
            assert refused.data["kind"] == "session_exists"
            await wire.call("session/close", session_id=SESSION)
        (new,) = [one for one in house.session_files() if SESSION in one.name]
        new_content = house.disk.content(new)
        await delete(wire)
        # The one that was begun last comes back; the other one stays.
        assert (await restore(wire))["path"] == str(new)
        assert (house.disk.content(new), in_trash(house)) == (new_content, [path.name])
        missing = await wire.refusal("session/restore", session_id="session-none")
        assert missing.data["kind"] == "session_not_found"


async def test_a_file_from_outside_the_profile_goes_back_to_its_folder(
    real_house: House, tmp_path: Path
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    path = folder / "chat.jsonl"
    path.write_bytes(GOOD)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        opened = (await wire.call("session/open", path=str(path)))["session"]
        await delete(wire, opened["id"])
        assert not path.exists()
        (one,) = await trashed(wire)
        assert (one["origin"], one["bytes"]) == (str(path), len(GOOD))
        path.write_bytes(b"something else\n")
        refused = await wire.refusal("session/restore", session_id=opened["id"])
        assert (refused.data["kind"], path.read_bytes()) in (
            ("session_exists", b"something else\n"),
            ("storage_error", b"something else\n"),
        )
        path.unlink()
        folder.rename(tmp_path / "moved")
        refused = await wire.refusal("session/restore", session_id=opened["id"])
        assert (refused.data["kind"], refused.data["errno"]) == ("storage_error", "ENOENT")
        assert "make it" in str(refused)
        (tmp_path / "moved").rename(folder)
        back = await restore(wire, opened["id"])
        assert (back["path"], back["epoch"]) == (str(path), opened["epoch"])
        assert path.read_bytes() == GOOD
        assert list(real_house.layout.trash.iterdir()) == []


@pytest.mark.parametrize(
    ("op", "nth"), [("touch", 1), ("rename", 1), ("fsync_folder", 1), ("fsync_folder", 2)]
)
async def test_a_restore_that_the_disk_refuses_changes_nothing(
    house: House, op: str, nth: int
) -> None:
    path = house.put(GOOD)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await delete(wire)
        held = in_trash(house)
        house.disk.fail(op, nth=nth)
        refused = await wire.refusal("session/restore", session_id=SESSION)
        assert refused.data["kind"] == "storage_error"
        house.disk.heal()
        assert (in_trash(house), house.disk.exists(path)) == (held, False)
        assert (await wire.refusal("session/get", session_id=SESSION)).data["kind"] == (
            "session_not_found"
        )
        await restore(wire)
        assert (house.disk.content(path), in_trash(house)) == (GOOD, [])


async def test_a_forgotten_draft_that_is_restored_is_touched(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await delete(wire)
    house.disk.seconds += 10 * 24 * 3600.0
    async with house.daemon() as daemon, daemon.connect() as wire:
        path = Path((await restore(wire))["path"])
    assert house.disk.stat(path).st_mtime_ns / 1e9 >= house.disk.seconds


async def test_the_trash_is_shown_in_pages(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        for number in range(5):
            session_id = f"session-{number}"
            await create(wire, session_id, persist="immediate")
            await delete(wire, session_id)
        first = await wire.call("session/trash", limit=3)
        rest = await wire.call("session/trash", limit=3, cursor=first["next_cursor"])
        shown = [one["session_id"] for one in first["sessions"] + rest["sessions"]]
        assert sorted(shown) == [f"session-{number}" for number in range(5)]
        assert (len(first["sessions"]), rest["next_cursor"]) == (3, None)


async def test_an_old_trash_without_a_note_says_how_to_get_a_file_back(house: House) -> None:
    house.put(GOOD)
    name = f"2026-01-01T00-00-00-000000_{SESSION}.jsonl.from-chat.jsonl"
    async with house.daemon() as daemon, daemon.connect() as wire:
        await delete(wire)
        await wire.call("session/purge", session_id=SESSION)
        house.disk.put(house.layout.trash / name, GOOD)
        (one,) = await trashed(wire)
        assert one["origin"] is None
        refused = await wire.refusal("session/restore", session_id=SESSION)
        assert refused.data["kind"] == "storage_error"
        assert "session/import" in str(refused)
        assert in_trash(house) == [name]


# -- forget ----------------------------------------------------------------------------------


async def test_a_session_outside_the_profile_is_forgotten_and_its_file_stays(
    real_house: House, tmp_path: Path
) -> None:
    path = tmp_path / "chat.jsonl"
    path.write_bytes(GOOD)
    async with (
        real_house.daemon() as daemon,
        daemon.connect() as wire,
        daemon.connect() as watcher,
    ):
        opened = (await wire.call("session/open", path=str(path)))["session"]
        await wire.call("append", session_id=opened["id"], message=ANSWER)
        listed = (await wire.call("session/list"))["sessions"]
        assert [one["id"] for one in listed] == [opened["id"]]
        await watcher.call("subscribe", session_id=opened["id"])
        content = path.read_bytes()
        assert await wire.call("session/forget", session_id=opened["id"]) == {}
        closed = await watcher.next_notification()
        assert closed["params"]["reason"] == "forgotten"
        assert (await wire.call("session/list"))["sessions"] == []
        gone = await wire.refusal("session/get", session_id=opened["id"])
        assert gone.data["kind"] == "session_not_found"
        again = await wire.refusal("session/forget", session_id=opened["id"])
        assert again.data["kind"] == "session_not_found"
        assert path.read_bytes() == content
        assert (await wire.call("session/search", query="there"))["hits"] == []


async def test_a_session_of_the_profile_is_not_forgotten(house: House) -> None:
    house.put(GOOD)
    async with house.daemon() as daemon, daemon.connect() as wire:
        for _ in range(2):
            refused = await wire.refusal("session/forget", session_id=SESSION)
            assert refused.data["kind"] == "invalid_params"
            assert (await session_info(wire))["id"] == SESSION


async def test_a_file_elsewhere_with_the_id_of_a_deleted_session_is_that_session_now(
    real_house: House, tmp_path: Path
) -> None:
    path = tmp_path / "copy.jsonl"
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        await wire.call("session/export", session_id=SESSION, path=str(path), format="native")
        await delete(wire)
        opened = (await wire.call("session/open", path=str(path)))["session"]
        assert (opened["id"], opened["path"]) == (SESSION, str(path))
        refused = await wire.refusal("session/restore", session_id=SESSION)
        assert refused.data["kind"] == "session_exists"
        await wire.call("session/forget", session_id=SESSION)
        assert (await restore(wire))["path"] != str(path)
