"""Lists are right after an append, beside foreign writers, and after any damage of the catalog."""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from anyio import Event, create_task_group, to_thread
from anyio.lowlevel import checkpoint

from sessiond.catalog.catalog import Catalog
from sessiond.errors import StorageError
from sessiond.service.files.scanning.folder_scanner import FolderScanner
from sessiond.testing.daemon import Wire
from tests.kit.calls import create, part_of, refused, say, session_info
from tests.kit.house import House
from tests.kit.limits import set_limits
from tests.kit.patience import PATIENCE_SECONDS, happened
from tests.kit.sessions import native_header

pytestmark = [pytest.mark.both_loops]

HINT = "params.{session_id,change}"
USAGE = {"input": 10, "output": 5, "totalTokens": 15, "cost": {"total": 0.5}}


def text(session_id: str, *contents: str, cwd: str = "/p") -> bytes:
    lines = [native_header(session_id, cwd)]
    for number, content in enumerate(contents):
        role = "assistant" if number % 2 else "user"
        message = {"role": role, "content": content} | ({"usage": USAGE} if number % 2 else {})
        parent = f"n{number - 1}" if number else None
        entry = {"type": "message", "id": f"n{number}", "parent_id": parent, "message": message}
        lines.append(entry)
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def drop_in(house: House, session_id: str, data: bytes, stamp: str = "2026-01-01") -> Path:
    path: Path = house.layout.session_path(session_id, f"{stamp}T00-00-00-000000")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


async def shown(wire: Wire, **more: Any) -> dict[str, Any]:
    page = await wire.call("session/list", **more)
    return {session["id"]: session for session in page["sessions"]}


# -- what was answered is shown -----------------------------------------------------------------


async def test_a_list_shows_what_another_connection_was_just_answered(real_house: House) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as one, daemon.connect() as other:
        await create(one, "session-a", persist="immediate")
        for number in range(1, 6):
            await say(one, session_id="session-a")
            assert (await shown(other))["session-a"]["seq"] == number


async def test_what_a_list_shows_is_what_get_says(real_house: House) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, "session-a", title="T", tags=["x"], persist="immediate")
        await say(wire, "First\nwords " + "x" * 300, session_id="session-a")
        message = {"role": "assistant", "content": "y", "usage": USAGE}
        await wire.call("append", session_id="session-a", message=message)
        await wire.call("branch", session_id="session-a", entry_id=None)
        got = await session_info(wire)
        listed = (await shown(wire))["session-a"]
        assert listed == {name: got[name] for name in listed}
        assert (got["message_count"], got["message_total"], got["entry_count"]) == (0, 2, 3)
        assert got["first_message"].startswith("First words xxx")
        assert len(got["first_message"]) == 200
        assert (got["usage"]["total_tokens"], got["usage"]["cost"]) == (15, 0.5)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        assert (await shown(wire))["session-a"] == listed | {"persist": "immediate"}
        again = await session_info(wire)
        assert again["usage"] == got["usage"]


async def test_a_draft_is_listed_when_it_becomes_a_conversation(real_house: House) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, "session-a", persist="on_assistant")
        await wire.call("catalog/subscribe")
        await say(wire, session_id="session-a")
        assert await shown(wire) == {}
        assert list(await shown(wire, drafts=True)) == ["session-a"]
        await say(wire, role="assistant", session_id="session-a")
        assert list(await shown(wire)) == ["session-a"]
        assert part_of(await wire.next_notification(), HINT) == ("session-a", "created")


async def test_a_session_in_memory_is_listed_and_comes_into_no_file(real_house: House) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, "session-a", persist="never")
        await say(wire, "do not keep this", session_id="session-a")
        assert (await shown(wire))["session-a"]["first_message"] == "do not keep this"
        for path in real_house.layout.root.glob("catalog.sqlite*"):
            assert b"do not keep" not in path.read_bytes()
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        assert await shown(wire) == {}


# -- what others do -----------------------------------------------------------------------------


async def test_no_list_lacks_open_sessions_while_a_lost_catalog_is_made_again(
    real_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let a list come between the scan and the open sessions, whose files no scan reads."""
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, "session-a", persist="immediate")
        assert set(await shown(wire)) == {"session-a"}
        lists = daemon.service.live_catalog
        store_open, begun, may_go = lists._store_open, Event(), Event()

        async def late() -> None:
            if begun.is_set():
                may_go.set()
            begun.set()
            await may_go.wait()
            await store_open()

        monkeypatch.setattr(lists, "_store_open", late)
        monkeypatch.setattr(FolderScanner, "is_due", lambda _: False)
        for path in real_house.layout.root.glob("catalog.sqlite*"):
            path.unlink()
        async with create_task_group() as tasks:
            tasks.start_soon(lists._look_around)
            await begun.wait()
            found = await shown(wire, limit=5)
            may_go.set()
        assert set(found) == {"session-a"}


async def test_a_file_that_is_dropped_in_and_taken_away_is_seen_at_once(real_house: House) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await wire.call("catalog/subscribe")
        path = drop_in(real_house, "session-b", text("session-b", "one", "two"))
        listed = await shown(wire)
        assert listed["session-b"]["message_count"] == 2
        path.unlink()
        assert await shown(wire) == {}
        for change in ("created", "deleted"):
            assert part_of(await wire.next_notification(), HINT) == ("session-b", change)


async def test_a_file_of_another_name_is_listed_by_the_id_in_its_header(real_house: House) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        path = drop_in(real_house, "session-b", text("session-b", "one"))
        path.rename(path.with_name("of another program.jsonl"))
        assert (await shown(wire))["session-b"]["path"].endswith("program.jsonl")
        assert (await session_info(wire, "session-b"))["seq"] == 1


async def test_what_others_write_into_a_file_is_seen_at_the_next_look(real_house: House) -> None:
    path = drop_in(real_house, "session-b", text("session-b", "one", "two"))
    os.utime(path, (0, 0))
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        assert (await shown(wire))["session-b"]["seq"] == 2
        # As long as before, and the clock of the file system may stand still meanwhile.
        path.write_bytes(text("session-b", "uno", "two"))
        real_house.seconds += 1.0
        assert (await shown(wire))["session-b"]["first_message"] == "uno"
        path.write_bytes(text("session-b", "eins", "zwei", "drei", "vier"))
        real_house.seconds += 1.0
        listed = (await shown(wire))["session-b"]
        assert (listed["seq"], listed["usage"]["total_tokens"]) == (4, 30)


async def test_of_two_files_with_one_id_the_older_name_is_the_session(real_house: House) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        older = drop_in(real_house, "session-b", text("session-b", "one"))
        newer = drop_in(real_house, "session-b", text("session-b", "one", "two"), "2026-02-01")
        page = await wire.call("session/list")
        assert [one["path"] for one in page["sessions"]] == [str(older)]
        (other,) = page["unreadable"]
        assert (other["path"], other["reason"]) == (
            str(newer),
            f"has the same session id as {older.name}",
        )
        older.unlink()
        page = await wire.call("session/list")
        assert [one["path"] for one in page["sessions"]] == [str(newer)]
        assert page["unreadable"] == []


async def test_a_damaged_file_is_named_until_it_is_whole(real_house: House) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        path = drop_in(real_house, "session-b", b"garbage\n")
        page = await wire.call("session/list")
        assert ([one["path"] for one in page["unreadable"]], page["sessions"]) == ([str(path)], [])
        path.write_bytes(text("session-b", "one"))
        real_house.seconds += 1.0
        page = await wire.call("session/list")
        assert (len(page["sessions"]), page["unreadable"]) == (1, [])


# -- what becomes of the catalog ----------------------------------------------------------------


@pytest.mark.parametrize("how", ["deleted", "overwritten"])
async def test_a_catalog_that_is_lost_under_the_daemon_is_made_again(
    real_house: House, how: str
) -> None:
    drop_in(real_house, "session-b", text("session-b", "one", "two"))
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, "session-a", persist="immediate")
        await create(wire, "session-m", persist="never")
        epoch = (
            await say(wire, session_id="session-a"),
            await wire.call("subscribe", session_id="session-a"),
        )
        before = await wire.call("session/list")
        if how == "deleted":
            for path in real_house.layout.root.glob("catalog.sqlite*"):
                path.unlink()
        else:
            connection = daemon.store.catalog.file._connection
            assert connection is not None
            await to_thread.run_sync(connection.execute, "PRAGMA journal_mode = DELETE")
            await to_thread.run_sync(connection.execute, "PRAGMA cache_size = 0")
            with real_house.layout.catalog.open("r+b") as file:
                file.write(b"no database any more" * 1000)
        await wire.call("catalog/subscribe")
        after = await wire.call("session/list")
        kept = {one["id"]: one for one in before["sessions"]}
        for one in after["sessions"]:
            # A session that is not open has a new epoch: the catalog alone knew it.
            kept[one["id"]] |= {"epoch": one["epoch"]} if one["id"] == "session-b" else {}
        assert {one["id"]: one for one in after["sessions"]} == kept
        assert after["revision"] >= before["revision"]
        await say(wire, session_id="session-a")
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        answer = await wire.call("subscribe", session_id="session-a")
        assert answer["epoch"] == epoch[1]["epoch"]
        assert sorted(await shown(wire)) == ["session-a", "session-b"]


async def test_a_catalog_that_cannot_be_written_fails_nothing(real_house: House) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, "session-a", persist="immediate")
        connection = daemon.store.catalog.file._connection
        assert connection is not None
        await to_thread.run_sync(connection.execute, "PRAGMA query_only = ON")
        await say(wire, session_id="session-a")
        await create(wire, "session-b", persist="immediate")
        assert {one["seq"] for one in (await shown(wire)).values()} == {0, 1}
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        assert sorted(await shown(wire)) == ["session-a", "session-b"]


async def test_the_revision_grows_across_restarts_and_a_lost_catalog(real_house: House) -> None:
    seen = []
    for number in range(3):
        async with real_house.daemon() as daemon, daemon.connect() as wire:
            await create(wire, f"session-{number}", persist="immediate")
            seen.append((await wire.call("session/list"))["revision"])
            seen.append((await wire.call("session/list"))["revision"])
    assert seen[0] == seen[1] < seen[2] == seen[3] < seen[4] == seen[5]


async def test_a_restart_reads_only_files_that_changed(
    real_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("session-a", "session-b"):
        os.utime(drop_in(real_house, name, text(name, "one", "two")), (0, 0))
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await shown(wire)
    path = drop_in(real_house, "session-b", text("session-b", "one", "two", "three", "four"))
    os.utime(path, (0, 0))
    read = list[str]()
    opened = real_house.files.open_read

    def open_read(path: Path) -> int:
        read.append(path.name)
        return int(opened(path))

    monkeypatch.setattr(real_house.files, "open_read", open_read)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        listed = await shown(wire)
        assert {name: one["seq"] for name, one in listed.items()} == {
            "session-a": 2,
            "session-b": 4,
        }
        assert listed["session-b"]["usage"]["total_tokens"] == 30
    assert [name for name in read if "session-a" in name] == []


# -- who watches ---------------------------------------------------------------------------------


async def test_watchers_hear_of_changes_without_asking(
    real_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, CATALOG_FLUSH_SECONDS=0.05)
    async with real_house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await wire.call("catalog/subscribe")
        await create(other, "session-a", persist="immediate")
        assert part_of(await wire.next_notification(), HINT) == ("session-a", "created")
        await other.call("session/archive", session_id="session-a")
        await shown(other)
        assert part_of(await wire.next_notification(), HINT) == ("session-a", "archived")
        await other.call("session/unarchive", session_id="session-a")
        await shown(other)
        assert part_of(await wire.next_notification(), HINT) == ("session-a", "unarchived")
        await other.call("session/delete", session_id="session-a")
        await shown(other)
        assert part_of(await wire.next_notification(), HINT) == ("session-a", "deleted")
        await wire.call("catalog/unsubscribe")
        await create(other, "session-b", persist="immediate")
        await shown(other)
        await wire.call("server/ping")
        assert wire.notifications == []


async def test_watchers_hear_of_a_change_whose_first_storing_failed(
    real_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, CATALOG_FLUSH_SECONDS=0.01)
    refusal = StorageError("no space left", errno="ENOSPC", path="", retryable=True)
    put, failures = Catalog.put, iter([refusal, MemoryError()])

    def fail_at_first(*arguments: Any) -> Any:
        for failure in failures:
            raise failure
        return put(*arguments)

    async with real_house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await wire.call("catalog/subscribe")
        monkeypatch.setattr(Catalog, "put", fail_at_first)
        await create(other, "session-a", persist="immediate")
        assert part_of(await wire.next_notification(), HINT) == ("session-a", "created")


async def test_watchers_hear_of_a_change_that_comes_during_a_storing(
    real_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, CATALOG_FLUSH_SECONDS=0.01)
    has_begun, may_go, put = threading.Event(), threading.Event(), Catalog.put

    def held(*arguments: Any) -> Any:
        has_begun.set()
        assert may_go.wait(PATIENCE_SECONDS)
        return put(*arguments)

    async with real_house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await wire.call("catalog/subscribe")
        monkeypatch.setattr(Catalog, "put", held)
        await create(other, "session-a", persist="immediate")
        await happened(has_begun)
        await create(other, "session-b", persist="immediate")
        may_go.set()
        for session_id in ("session-a", "session-b"):
            assert part_of(await wire.next_notification(), HINT) == (session_id, "created")


async def test_a_flood_of_changes_is_told_as_one(real_house: House) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await wire.call("catalog/subscribe")
        for number in range(150):
            name = f"session-{number:03d}"
            drop_in(real_house, name, text(name, "one"))
        assert len(await shown(wire, limit=1000)) == 150
        assert part_of(await wire.next_notification(), HINT) == (None, "many")


# -- what cannot be asked ------------------------------------------------------------------------


async def test_a_cursor_holds_while_others_write(real_house: House) -> None:
    for number in range(30):
        name = f"session-{number:03d}"
        drop_in(real_house, name, text(name, "one"))
    async with real_house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        seen, cursor = list[str](), None
        while True:
            page = await wire.call("session/list", limit=7, cursor=cursor, sort="created_at")
            seen += [one["id"] for one in page["sessions"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
            await say(other, session_id=f"session-{len(seen):03d}")
        assert sorted(seen) == [f"session-{number:03d}" for number in range(30)]
        first = await wire.call("session/list", limit=7)
        asked = {"limit": 7, "cursor": first["next_cursor"], "cwd": "/q"}
        assert await refused(wire, "session/list", "path", **asked) == "cursor"


async def test_a_folder_that_is_gone_is_an_empty_one(real_house: House) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        drop_in(real_house, "session-b", text("session-b", "one"))
        assert len(await shown(wire)) == 1
        shutil.rmtree(real_house.layout.sessions)
        assert await shown(wire) == {}


async def test_the_only_file_left_of_an_open_session_is_no_copy(real_house: House) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, "moved-session", persist="immediate")
        (path,) = real_house.layout.sessions.iterdir()
        copy = real_house.layout.archive / path.name
        shutil.copyfile(path, copy)
        page = await wire.call("session/list")
        assert [each["path"] for each in page["unreadable"]] == []
        both = await wire.call("session/list", archived=None)
        assert [each["path"] for each in both["unreadable"]] == [str(copy)]
        path.replace(copy)
        both = await wire.call("session/list", archived=None)
        assert both["unreadable"] == []


async def test_a_session_that_is_made_again_while_it_is_looked_for_stays_listed(
    real_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, CATALOG_FLUSH_SECONDS=0.05)
    looked, made_again = threading.Event(), threading.Event()
    put = FolderScanner._put

    def put_later(scanner: FolderScanner, rows: Any, gone: list[str], tell: Any) -> None:
        if gone:
            looked.set()
            assert made_again.wait(20)
        put(scanner, rows, gone, tell)

    path = await to_thread.run_sync(drop_in, real_house, "session-a", text("session-a", "hi"))
    async with real_house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        assert list(await shown(wire)) == ["session-a"]
        monkeypatch.setattr(FolderScanner, "_put", put_later)
        await to_thread.run_sync(path.unlink)
        listing = await other.request("session/list")
        await happened(looked)
        made = (await create(wire, "session-a", persist="immediate"))["session"]["path"]
        # Its host has told of it, and has nothing more to tell.
        catalog = daemon.store.catalog
        while True:
            row = await to_thread.run_sync(catalog.shown, "session-a")
            if row is not None and made.encode() in row.info:
                break
            await checkpoint()
        made_again.set()
        await other.answer(listing)
        assert list(await shown(wire)) == ["session-a"]
