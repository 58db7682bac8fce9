"""Restore: a deleted session comes back to its old path, whole, and replaces no file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.calls import call, create, refused, session_info, watch
from tests.kit.house import House
from tests.kit.roots import ids
from tests.kit.sessions import SESSION
from tests.service.damage import GOOD, line

USER = {"role": "user", "content": "hi"}
ANSWER = {"role": "assistant", "content": "there"}


@pytest.mark.parametrize("restart", [False, True], ids=["", "after a restart"])
@pytest.mark.parametrize("state", ["immediate", "on_assistant", "archived"])
async def test_a_deleted_session_comes_back_as_it_was(
    house: House, state: str, *, restart: bool
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        persist = "immediate" if state == "archived" else state
        await create(wire, persist=persist, title="t")
        sent = await call(wire, "append", message=USER)
        if state == "archived":
            await call(wire, "session/archive")
        before = await session_info(wire)
        assert await call(wire, "session/delete") == {}
        (one,) = await call(wire, "session/trash", "sessions")
        assert (one["session_id"], one["title"], one["cwd"]) == (SESSION, "t", "/p")
        assert one["origin"] == before["path"]
        # Lists drop the session by then, as they do a second later.
        assert await ids(wire, drafts=True, archived=None) == []
        if not restart:
            assert await call(wire, "session/restore", "session") == before
    if restart:
        async with house.daemon() as daemon, daemon.connect() as wire:
            assert await call(wire, "session/restore", "session") == before
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await call(wire, "session/trash", "sessions") == []
        assert house.trashed() == []
        # Cursors of before go on, and lists show it.
        cursor = {"seq": sent["seq"], "epoch": before["epoch"]}
        assert "replaced" not in await watch(wire, after=cursor)
        assert await ids(wire, drafts=True, archived=None) == [SESSION]


async def test_a_restore_survives_a_power_cut(house: House) -> None:
    path = house.put(GOOD)
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await call(wire, "session/delete") == {}
        await call(wire, "session/restore", "session")
        house.files = house.disk.crash()
    assert house.disk.content(path) == GOOD
    assert house.trashed() == []


async def test_torn_ends_come_back_and_copies_from_before_a_repair_stay(house: House) -> None:
    path = house.put(GOOD + b"no line\n" + line(b"n3", b'"n2"') + b'{"type":"mess\0')
    async with house.daemon() as daemon, daemon.connect() as wire:
        await call(wire, "session/repair", dry_run=False)
        (backup,) = house.trashed()
        await call(wire, "session/close")
        house.disk.write_as_another(path, b'{"type":"mess\0')
        await call(wire, "append", message=USER)
        (torn,) = [one for one in house.disk.paths if ".torn-" in one.name]
        content = house.disk.content(torn)
        assert await call(wire, "session/delete") == {}
        assert len(house.trashed()) == 3
        await call(wire, "session/restore", "session")
        assert house.trashed() == [backup]
        assert house.disk.content(torn) == content


async def test_a_file_that_cannot_be_opened_comes_back_and_the_refusal_says_so(
    house: House,
) -> None:
    path = house.put(GOOD)
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await call(wire, "session/delete") == {}
        (name,) = house.trashed()
        house.disk.put(house.layout.trash / name, b"no session at all\n")
        refusal = await wire.refusal("session/restore", session_id=SESSION)
        assert refusal.data["kind"] == "session_corrupt"
        assert "was restored" in refusal.message
        assert house.session_files() == [path]
        assert await refused(wire, "session/restore") == "session_exists"


async def test_nothing_is_replaced_and_nothing_is_lost(house: House) -> None:
    path = house.put(GOOD)
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await refused(wire, "session/restore") == "session_exists"
        assert await call(wire, "session/delete") == {}
        await create(wire, persist="immediate")
        for _ in range(2):
            assert await refused(wire, "session/restore") == "session_exists"
            await call(wire, "session/close")
        (new,) = [one for one in house.session_files() if SESSION in one.name]
        new_content = house.disk.content(new)
        assert await call(wire, "session/delete") == {}
        # The one that was begun last comes back; the other one stays.
        assert await call(wire, "session/restore", "session.path") == str(new)
        assert (house.disk.content(new), house.trashed()) == (new_content, [path.name])
        kind = await refused(wire, "session/restore", session_id="session-none")
        assert kind == "session_not_found"


async def test_a_file_from_outside_the_profile_goes_back_to_its_folder(
    real_house: House, tmp_path: Path
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    path = folder / "chat.jsonl"
    path.write_bytes(GOOD)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        opened = await call(wire, "session/open", "session", path=str(path))
        assert await call(wire, "session/delete", session_id=opened["id"]) == {}
        assert not path.exists()
        (one,) = await call(wire, "session/trash", "sessions")
        assert (one["origin"], one["bytes"]) == (str(path), len(GOOD))
        path.write_bytes(b"something else\n")
        refusal = await wire.refusal("session/restore", session_id=opened["id"])
        assert (refusal.data["kind"], path.read_bytes()) in (
            ("session_exists", b"something else\n"),
            ("storage_error", b"something else\n"),
        )
        path.unlink()
        folder.rename(tmp_path / "moved")
        refusal = await wire.refusal("session/restore", session_id=opened["id"])
        assert (refusal.data["kind"], refusal.data["errno"]) == ("storage_error", "ENOENT")
        assert "make it" in str(refusal)
        (tmp_path / "moved").rename(folder)
        back = await call(wire, "session/restore", "session", session_id=opened["id"])
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
        assert await call(wire, "session/delete") == {}
        held = house.trashed()
        house.disk.fail(op, nth=nth)
        assert await refused(wire, "session/restore") == "storage_error"
        house.disk.heal()
        assert (house.trashed(), house.disk.exists(path)) == (held, False)
        assert await refused(wire, "session/get") == "session_not_found"
        await call(wire, "session/restore", "session")
        assert (house.disk.content(path), house.trashed()) == (GOOD, [])


async def test_a_forgotten_draft_that_is_restored_is_touched(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        assert await call(wire, "session/delete") == {}
    house.disk.seconds += 10 * 24 * 3600.0
    async with house.daemon() as daemon, daemon.connect() as wire:
        path = Path(await call(wire, "session/restore", "session.path"))
    assert house.disk.stat(path).st_mtime_ns / 1e9 >= house.disk.seconds


async def test_the_trash_is_shown_in_pages(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        for number in range(5):
            session_id = f"session-{number}"
            await create(wire, session_id, persist="immediate")
            assert await call(wire, "session/delete", session_id=session_id) == {}
        first = await wire.call("session/trash", limit=3)
        rest = await wire.call("session/trash", limit=3, cursor=first["next_cursor"])
        shown = [one["session_id"] for one in first["sessions"] + rest["sessions"]]
        assert sorted(shown) == [f"session-{number}" for number in range(5)]
        assert (len(first["sessions"]), rest["next_cursor"]) == (3, None)


async def test_an_old_trash_without_a_note_says_how_to_get_a_file_back(house: House) -> None:
    house.put(GOOD)
    name = f"2026-01-01T00-00-00-000000_{SESSION}.jsonl.from-chat.jsonl"
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await call(wire, "session/delete") == {}
        await call(wire, "session/purge")
        house.disk.put(house.layout.trash / name, GOOD)
        (one,) = await call(wire, "session/trash", "sessions")
        assert one["origin"] is None
        refusal = await wire.refusal("session/restore", session_id=SESSION)
        assert refusal.data["kind"] == "storage_error"
        assert "session/import" in str(refusal)
        assert house.trashed() == [name]


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
        opened = await call(wire, "session/open", "session", path=str(path))
        await wire.call("append", session_id=opened["id"], message=ANSWER)
        assert await ids(wire) == [opened["id"]]
        await watcher.call("subscribe", session_id=opened["id"])
        content = path.read_bytes()
        assert await wire.call("session/forget", session_id=opened["id"]) == {}
        closed = await watcher.next_notification()
        assert closed["params"]["reason"] == "forgotten"
        assert await ids(wire) == []
        assert await refused(wire, "session/get", session_id=opened["id"]) == "session_not_found"
        assert await refused(wire, "session/forget", session_id=opened["id"]) == "session_not_found"
        assert path.read_bytes() == content
        assert await call(wire, "session/search", "hits", query="there") == []


async def test_a_session_of_the_profile_is_not_forgotten(house: House) -> None:
    house.put(GOOD)
    async with house.daemon() as daemon, daemon.connect() as wire:
        for _ in range(2):
            assert await refused(wire, "session/forget") == "invalid_params"
            assert (await session_info(wire))["id"] == SESSION


async def test_a_file_elsewhere_with_the_id_of_a_deleted_session_is_that_session_now(
    real_house: House, tmp_path: Path
) -> None:
    path = tmp_path / "copy.jsonl"
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        await call(wire, "session/export", path=str(path), format="native")
        assert await call(wire, "session/delete") == {}
        opened = await call(wire, "session/open", "session", path=str(path))
        assert (opened["id"], opened["path"]) == (SESSION, str(path))
        assert await refused(wire, "session/restore") == "session_exists"
        await call(wire, "session/forget")
        assert await call(wire, "session/restore", "session.path") != str(path)


async def test_the_last_page_of_the_trash_has_no_cursor(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        for number in range(4):
            await create(wire, f"session-{number}", persist="immediate")
            await wire.call("session/delete", session_id=f"session-{number}")
        seen: list[str] = []
        cursor: str | None = None
        for is_last in (False, True):
            page = await wire.call("session/trash", limit=2, cursor=cursor)
            seen += [one["session_id"] for one in page["sessions"]]
            cursor = page["next_cursor"]
            assert (cursor is None) is is_last
        assert sorted(seen) == [f"session-{number}" for number in range(4)]
