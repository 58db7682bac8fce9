"""Delete and purge: any session goes to the trash whole, in the order of the requests."""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from pathlib import Path
from unittest.mock import Mock

import pytest
from anyio import to_thread

from sessiond.journal.disk.files import Files
from sessiond.testing.daemon import Refusal
from tests.kit.calls import call, cancel, create_with, refused, refused_answer, say, session_info
from tests.kit.house import House, arrived
from tests.kit.sessions import HI, SESSION

PI = b'{"type":"session","version":3,"id":"session-p","timestamp":"2026-01-15T10:30:00.000Z","cwd":"/p"}\n'


# -- whatever it is --------------------------------------------------------------------------


@pytest.mark.parametrize("persist", ["immediate", "on_assistant"])
@pytest.mark.parametrize("state", ["open", "unloaded", "archived"])
async def test_a_session_goes_to_the_trash_and_is_found_no_more(
    house: House, persist: str, state: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", persist=persist)
        if state == "archived":
            await wire.call("session/archive", session_id=SESSION)
        if state == "unloaded":
            await wire.call("session/close", session_id=SESSION)
        assert await call(wire, "session/delete") == {}
        assert set(house.places()) == {"trash"}
        for method in ("session/get", "session/entries", "session/archive", "session/unarchive"):
            assert await refused(wire, method) == "session_not_found"
        assert await refused(wire, "append", message=HI) == "session_not_found"
        listed = await wire.call("session/list", drafts=True)
        assert (listed["sessions"], listed["unreadable"]) == ([], [])
        # Safe to repeat, and the id is free.
        assert await call(wire, "session/delete") == {}
        await create_with(wire, "n1", persist=persist)
        assert await call(wire, "session/delete") == {}
        # Of one from the archive a note says that it lay there.
        files = 3 if state == "archived" else 2
        assert len(house.places()) == files
    assert house.disk.open_descriptors == 0
    assert len([path for path in house.disk.crash().paths if SESSION in path.name]) == files


@pytest.mark.parametrize(
    "content", [b"", b"garbage\n", None], ids=["empty", "no header", "bad line"]
)
async def test_a_damaged_session_goes_as_it_is(house: House, content: bytes | None) -> None:
    if content is None:
        content = house.disk.content(house.put([])) + b"garbage\n"
    path = house.put(content)
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await call(wire, "session/delete") == {}
    assert house.disk.content(house.layout.trash / path.name) == content


async def test_copies_of_torn_ends_go_with_it(house: House) -> None:
    path = house.put([])
    house.disk.put(path, house.disk.content(path) + b'{"type":"mess\0')
    async with house.daemon() as daemon, daemon.connect() as wire:
        message = {"role": "user", "content": "hi"}
        await wire.call("append", session_id=SESSION, message=message)
        assert len(house.places()) == 2
        await call(wire, "session/delete")
        assert set(house.places()) == {"trash"}
        assert len(house.places()) == 2
        await wire.call("session/purge", session_id=SESSION)
        assert house.places() == []


async def test_every_file_of_the_id_goes(house: House) -> None:
    path = house.put([])
    house.disk.put(house.layout.sessions / f"2026-02-01T00-00-00-000000_{SESSION}.jsonl", b"x\n")
    house.disk.put(house.layout.pending_path(SESSION), house.disk.content(path))
    async with house.daemon() as daemon, daemon.connect() as wire:
        await call(wire, "session/delete")
        assert set(house.places()) == {"trash"}
        assert len(house.places()) == 3
        assert await refused(wire, "session/get") == "session_not_found"


async def test_what_is_in_memory_is_gone_and_purge_finds_nothing_of_it(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", persist="never")
        assert await refused(wire, "session/purge") == "session_exists"
        assert await call(wire, "session/delete") == {}
        for method in ("session/get", "session/delete", "session/purge"):
            assert await refused(wire, method) == "session_not_found"
    assert house.places() == []


async def test_a_file_outside_the_profile_goes_with_its_name_and_purge_takes_it_away(
    real_house: House, tmp_path: Path
) -> None:
    foreign = tmp_path / "theirs.jsonl"
    foreign.write_bytes(PI)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        opened = (await wire.call("session/open", path=str(foreign)))["session"]["id"]
        await call(wire, "session/delete", session_id=opened)
        assert not foreign.exists()
        kept, note = sorted(real_house.layout.trash.iterdir())
        assert kept.read_bytes() == PI
        assert kept.name.endswith("_session-p.jsonl.from-theirs.jsonl")
        assert note.name == f"{kept.name}.origin"
        assert await call(wire, "session/delete", session_id=opened) == {}
        await wire.call("session/purge", session_id=opened)
        assert list(real_house.layout.trash.iterdir()) == []


async def test_what_another_process_holds_stays(real_house: House) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", persist="immediate")
        path = Path((await session_info(wire))["path"])
    held = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        async with real_house.daemon() as daemon, daemon.connect() as wire:
            assert await refused(wire, "session/delete") == "session_locked"
            fcntl.flock(held, fcntl.LOCK_UN)
            assert path.exists()
            assert (await say(wire))["seq"] == 2
    finally:
        os.close(held)


async def test_what_never_was_is_not_found(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1")
        told = await refused(wire, "session/delete", "{kind,session_id}", session_id="session-b")
        assert told == ("session_not_found", "session-b")
        assert await call(wire, "session/delete") == {}


# -- order -----------------------------------------------------------------------------------


@pytest.mark.parametrize("persist", ["immediate", "on_assistant", "never"])
@pytest.mark.parametrize("is_open", [True, False])
async def test_requests_before_it_are_served_and_those_after_it_find_nothing(
    house: House, persist: str, *, is_open: bool
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        if is_open:
            await create_with(wire, "n1", persist=persist)
        made = await wire.request(
            "session/create", cwd="/p", session_id=SESSION, persist=persist, if_exists="open"
        )
        asked = [
            await wire.request("append", session_id=SESSION, message=HI),
            await wire.request("session/delete", session_id=SESSION),
            await wire.request("append", session_id=SESSION, message=HI),
            await wire.request("session/get", session_id=SESSION),
        ]
        assert (await wire.answer(made))["created"] is not is_open
        assert (await wire.answer(asked[0]))["seq"] == 1 + is_open
        assert await wire.answer(asked[1]) == {}
        for late in asked[2:]:
            with pytest.raises(Refusal, match="session_not_found"):
                await wire.answer(late)


async def test_what_waits_for_the_disk_is_stored_before_the_file_goes(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create_with(wire, "n1", persist="immediate")
        with house.disk.hold("fdatasync") as gate:
            first = await wire.request("append", session_id=SESSION, message=HI)
            await arrived(gate)
            second = await wire.request("append", session_id=SESSION, message=HI)
            await wire.call("server/ping")
            gone = await other.request("session/delete", session_id=SESSION)
            await other.call("server/ping")
            gate.open.set()
            assert (await wire.answer(first))["seq"] == 2
            assert (await wire.answer(second))["seq"] == 3
            assert await other.answer(gone) == {}
        assert house.places() == ["trash"]
        (name,) = house.trashed()
        size = len(house.disk.content(house.layout.trash / name))
    assert house.places() == ["trash"]
    data = house.disk.content(house.layout.trash / name)
    assert (data.count(b"\n"), len(data)) == (4, size)


async def test_delete_and_purge_and_create_in_one_go(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", persist="immediate")
        asked = [
            await wire.request("session/delete", session_id=SESSION),
            await wire.request("session/purge", session_id=SESSION),
            await wire.request("session/create", cwd="/q", session_id=SESSION),
        ]
        answers = [await wire.answer(number) for number in asked]
        assert answers[:2] == [{}, {}]
        assert answers[2]["session"]["cwd"] == "/q"
        assert house.places() == ["pending"]


@pytest.mark.parametrize("persist", ["immediate", "on_assistant", "never"])
async def test_a_session_that_is_created_behind_a_purge_is_listed(
    house: House, persist: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", persist="immediate")
        await call(wire, "session/delete")
        asked = [
            await wire.request("session/purge", session_id=SESSION),
            await wire.request("session/create", cwd="/q", session_id=SESSION, persist=persist),
        ]
        purged, created = [await wire.answer(number) for number in asked]
        assert purged == {}
        listed = await wire.call("session/list", drafts=True)
        assert [row["id"] for row in listed["sessions"]] == [SESSION]
        assert listed["sessions"][0]["cwd"] == "/q"
        assert (await session_info(wire))["epoch"] == created["session"]["epoch"]
        if persist == "immediate":
            known = await to_thread.run_sync(daemon.store.profile.records.known, SESSION)
            assert known is not None
            assert known.mark.epoch == created["session"]["epoch"]


async def test_who_watches_is_told_once_it_is_gone_and_may_watch_its_successor(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await create_with(wire, "n1", persist="immediate")
        await watcher.call("subscribe", session_id=SESSION, after={"seq": 0})
        epoch = (await session_info(wire))["epoch"]
        assert [(await watcher.next_notification())["method"] for _ in range(2)] == [
            "session/event",
            "session/synced",
        ]
        await call(wire, "session/delete")
        told = await watcher.next_notification()
        assert told["method"] == "session/closed"
        assert told["params"] == {"session_id": SESSION, "reason": "deleted"}
        assert await refused(watcher, "session/flush") == "session_not_found"
        await create_with(wire, "n1", persist="immediate")
        after = {"seq": 1, "epoch": epoch}
        answer = await watcher.call("subscribe", session_id=SESSION, after=after)
        assert answer["replaced"] == "epoch"


async def test_a_delete_that_failed_is_told_as_such_to_all_and_the_session_goes_on(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await create_with(wire, "n1", persist="immediate")
        epoch = (await watcher.call("subscribe", session_id=SESSION))["epoch"]
        house.disk.fail("rename", errno=errno.EROFS)
        told = await refused(wire, "session/delete", "{kind,errno}")
        assert told == ("storage_error", "EROFS")
        assert (await watcher.next_notification())["params"]["reason"] == "storage_error"
        assert (await say(wire))["seq"] == 2
        after = {"seq": 1, "epoch": epoch}
        assert "replaced" not in await watcher.call("subscribe", session_id=SESSION, after=after)


async def test_who_asked_may_leave_and_it_is_deleted_all_the_same(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", persist="immediate")
        with house.disk.hold("rename") as gate:
            async with daemon.connect() as other:
                number = await other.request("session/delete", session_id=SESSION)
                await arrived(gate)
                await cancel(other, number)
                await other.call("server/ping")
            gate.open.set()
        assert await refused(wire, "session/get") == "session_not_found"
    assert set(house.places()) == {"trash"}


# -- crashes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("exdev", [False, True], ids=["renamed", "copied to another device"])
async def test_whatever_call_of_a_delete_fails_the_session_is_whole_in_one_place_or_the_other(
    house: House, *, exdev: bool
) -> None:
    content = house.disk.content(house.put([])) + b'{"type":"mess'
    nth, failed = 0, True
    while failed:
        nth += 1
        house.files = type(house.disk)(house.home)
        path = house.put(content)
        async with house.daemon() as daemon, daemon.connect() as wire:
            await wire.call("session/get", session_id=SESSION)
            await wire.call("session/close", session_id=SESSION)
            whole = house.disk.content(path)
            if exdev:
                house.disk.fail("rename", errno=errno.EXDEV)
                house.disk.fail("rename", nth=3, errno=errno.EXDEV)
            fault = house.disk.fail(None, nth=nth)
            number = await wire.request("session/delete", session_id=SESSION)
            with suppress(Refusal):
                await wire.answer(number)
            failed = fault.hit
            house.disk.heal()
            for names in range(12):
                left = house.disk.crash(names=names)
                places = [left.content(p) for p in left.paths if p.name == path.name]
                assert whole in places, (nth, names)
            # Repeated, it does all of it.
            await call(wire, "session/delete")
            assert set(house.places()) == {"trash"}, (nth, house.trashed())
            after = house.disk.crash()
            assert all(p.parent == house.layout.trash for p in after.paths if SESSION in p.name)
        assert house.disk.open_descriptors == 0
    assert nth > 10


@pytest.mark.parametrize("op", ["listdir", "unlink", "fsync_folder"])
async def test_a_purge_that_fails_is_repeated(house: House, op: str) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", persist="immediate")
        await call(wire, "session/delete")
        house.disk.fail(op)
        assert await refused(wire, "session/purge") == "storage_error"
        # What the failed one took away is not found again.
        if house.places():
            await wire.call("session/purge", session_id=SESSION)
        assert house.places() == []


async def test_a_full_trash_of_another_device_leaves_the_session_where_it_was(
    real_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rename(_self: Files, old: Path, new: Path) -> None:
        if old.parent != new.parent:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        old.rename(new)

    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", persist="immediate")
        with monkeypatch.context() as patch:
            patch.setattr(Files, "rename_new", rename)
            no_space = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            patch.setattr(Files, "fsync", Mock(side_effect=no_space))
            assert await refused(wire, "session/delete") == "storage_error"
        assert list(real_house.layout.trash.iterdir()) == []
        assert (await say(wire))["seq"] == 2
        monkeypatch.setattr(Files, "rename_new", rename)
        assert await call(wire, "session/delete") == {}
        (kept,) = real_house.layout.trash.iterdir()
        assert kept.read_bytes().count(b"\n") == 3
        assert list(real_house.layout.sessions.iterdir()) == []


async def test_a_purge_does_not_take_what_a_later_delete_puts_into_the_trash(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", persist="immediate")
        purged = await wire.request("session/purge", session_id=SESSION)
        deleted = await wire.request("session/delete", session_id=SESSION)
        assert await refused_answer(wire, purged) == "session_exists"
        assert await wire.answer(deleted) == {}
    assert set(house.places()) == {"trash"}
