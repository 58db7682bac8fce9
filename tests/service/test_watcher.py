"""Foreign changes of open files, noticed without an own append, by each way of watching."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import anyio
import pytest

from sessiond.journal.disk.files import Files
from sessiond.service.external import inotify
from sessiond.service.external.folder_notices import InotifyFolders
from sessiond.service.external.inotify import InotifyWatcher
from sessiond.service.external.inotify_events import OVERFLOW
from sessiond.service.external.watcher import PollingWatcher, Watcher
from sessiond.system import SYSTEM
from sessiond.system.linux import LINUX
from sessiond.system.macos import MACOS
from sessiond.testing.wire import Wire
from tests.kit.calls import call, session_info
from tests.kit.house import House
from tests.kit.inotify import inotify_watcher
from tests.kit.limits import set_limits
from tests.kit.patience import PATIENCE_SECONDS, eventually
from tests.kit.sessions import SESSION
from tests.service.test_foreign_writers import HEADERS, IDS, event, line, message_of

pytestmark = [pytest.mark.both_loops, pytest.mark.platform]

OUTBOX_BYTES = 100_000


@pytest.fixture(params=["told", "looked"])
def watching(request: pytest.FixtureRequest, real_house: House) -> Watcher:
    if request.param == "looked":
        return PollingWatcher(real_house.files, 0.02)
    return inotify_watcher(PollingWatcher(real_house.files))


def begun(house: House, dialect: str) -> Path:
    """Make a session of two entries on the disk of this machine."""
    path = house.layout.session_path(SESSION, "2026-01-01T00-00-00-000000")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text_of(dialect, "aaaaaaa1", "aaaaaaa2"))
    return path


def text_of(dialect: str, *ids: str) -> bytes:
    """Make a file with a chain of these entries."""
    parents = [None, *ids]
    lines = [line(dialect, *pair) for pair in zip(ids, parents, strict=False)]
    return b"".join([HEADERS[dialect], *lines])


def write_as_another(path: Path, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.write(fd, data)
    os.close(fd)


def replace(path: Path, data: bytes) -> None:
    """Replace a file as an editor does when it saves."""
    other = path.with_name("saved.tmp")
    other.write_bytes(data)
    other.rename(path)


async def test_lines_of_others_are_events_at_once(
    real_house: House, watching: Watcher, dialect: str
) -> None:
    path = begun(real_house, dialect)
    async with real_house.daemon(watching) as daemon, daemon.connect() as wire:
        await wire.call("subscribe", session_id=SESSION)
        for n in range(3):
            write_as_another(path, line(dialect, f"bbbbbbb{n}", "aaaaaaa1"))
            assert await event(wire) == {
                "seq": 3 + n,
                "id": f"bbbbbbb{n}",
                "leaf": f"bbbbbbb{n}",
                "external": True,
            }
        listed = (await wire.call("session/list"))["sessions"]
        assert [(one["seq"], one["updated_at"]) for one in listed] == [
            (5, "2026-01-15T11:00:00.000Z")
        ]


async def test_more_lines_at_once_than_an_outbox_holds_are_replayed_from_the_file(
    real_house: House, watching: Watcher, dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, OUTBOX_BYTES_MAX=OUTBOX_BYTES)
    path = begun(real_house, dialect)
    ids = [f"b{n:07d}" for n in range(OUTBOX_BYTES // len(line(dialect, "b0000000", None)) * 3)]
    async with real_house.daemon(watching) as daemon, daemon.connect() as wire:
        await wire.call("subscribe", session_id=SESSION)
        write_as_another(path, b"".join(line(dialect, one, "aaaaaaa2") for one in ids))
        told = [await wire.next_notification() for _ in range(len(ids) + 2)]
        events = [one["params"] for one in told if one["method"] == "session/event"]
        assert [one["entry"]["id"] for one in events] == ids
        assert [one["seq"] for one in events] == list(range(3, len(ids) + 3))
        others_told = [one["method"] for one in told if one["method"] != "session/event"]
        assert others_told == ["session/lagged", "session/synced"]


async def read_all(wire: Wire) -> None:
    """Read the session and its file in every way that moves no subscription."""
    for method in ("get", "entries", "path", "tree", "build_context", "verify", "usage", "labels"):
        await wire.call(f"session/{method}", session_id=SESSION)
    await wire.call("session/list")
    await wire.call("session/repair", session_id=SESSION)
    await wire.call("session/search", query="half")


async def test_half_a_line_is_closed_by_an_append_and_by_no_reader(
    real_house: House, watching: Watcher, dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Half a line is old enough to be closed as soon as it is seen.
    set_limits(monkeypatch, HALF_LINE_SECONDS=0.0)
    path = begun(real_house, dialect)
    async with real_house.daemon(watching) as daemon, daemon.connect() as wire:
        await wire.call("subscribe", session_id=SESSION)
        actor = daemon.service.find(SESSION)
        assert actor is not None
        write_as_another(path, b'{"half')
        left = path.read_bytes()
        await eventually(lambda: actor.opened.journal.half_bytes == len(b'{"half'))
        for _ in range(3):
            await actor.writer.look()
            await read_all(wire)
        assert path.read_bytes() == left
        assert wire.notifications == []
        # What stores no line closes nothing either: a refused append, a retry, a flush.
        await wire.refusal("append", session_id=SESSION, entry={"type": "leaf", "id": "x"})
        await wire.call("session/flush", session_id=SESSION, durability="disk")
        assert path.read_bytes() == left
        assert (await call(wire, "append", message=message_of(dialect, "ours")))["seq"] == 4
        assert path.read_bytes().startswith(left + b" \n{")
        assert (await event(wire))["seq"] == 4
        info = await session_info(wire)
        assert (info["seq"], info["problems"], info["read_only"]) == (4, 1, False)


async def test_a_session_that_is_closed_and_opened_again_leaves_half_a_line_open(
    real_house: House, watching: Watcher, dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, HALF_LINE_SECONDS=0.0)
    path = begun(real_house, dialect)
    whole = line(dialect, "bbbbbbb1", "aaaaaaa2")
    async with real_house.daemon(watching) as daemon, daemon.connect() as wire:
        await wire.call("subscribe", session_id=SESSION)
        write_as_another(path, whole[:20])
        actor = daemon.service.find(SESSION)
        assert actor is not None
        await eventually(lambda: actor.opened.journal.half_bytes == 20)
        await wire.call("session/close", session_id=SESSION)
        await eventually(lambda: daemon.service.registry.is_free(SESSION))
        await wire.call("subscribe", session_id=SESSION)
        await read_all(wire)
        write_as_another(path, whole[20:])
        told = await event(wire)
        assert (told["seq"], told["id"]) == (3, "bbbbbbb1")
        assert path.read_bytes().endswith(whole)


def write_anew(path: Path, data: bytes) -> None:
    """Rewrite a file in place with a later time, because clocks of file systems are coarse."""
    with path.open("r+b") as file:
        file.write(data)
    later = path.stat().st_mtime_ns + 1_000_000_000
    os.utime(path, ns=(later, later))


@pytest.mark.parametrize("more", [0, 1])
async def test_a_file_that_is_written_anew_in_place_is_another_however_long(
    real_house: House, watching: Watcher, dialect: str, more: int
) -> None:
    path = begun(real_house, dialect)
    async with real_house.daemon(watching) as daemon, daemon.connect() as wire:
        await wire.call("subscribe", session_id=SESSION)
        epoch = (await session_info(wire))["epoch"]
        ids = ["aaaaaaa1", "ccccccc2", "ccccccc3"][: 2 + more]
        write_anew(path, text_of(dialect, *ids))
        told = await wire.next_notification()
        assert (told["method"], told["params"]["reason"]) == ("session/replaced", "epoch")
        assert told["params"]["epoch"] != epoch
        assert [(await event(wire))["id"] for _ in ids] == ids


async def test_an_append_stands_on_a_line_that_was_written_anew_in_place(
    real_house: House, dialect: str
) -> None:
    path = begun(real_house, dialect)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        first = (await call(wire, "append", message=message_of(dialect, "ours")))["leaf_id"]
        other = "f" * len(first)
        write_anew(path, path.read_bytes().replace(first.encode(), other.encode()))
        assert (await call(wire, "append", message=message_of(dialect, "ours")))["entries"][0][
            "parent_id"
        ] == other


async def test_whose_time_alone_is_new_is_the_same_file(
    real_house: House, watching: Watcher, dialect: str
) -> None:
    path = begun(real_house, dialect)
    async with real_house.daemon(watching) as daemon, daemon.connect() as wire:
        await wire.call("subscribe", session_id=SESSION)
        epoch = (await session_info(wire))["epoch"]
        path.touch()
        assert (await call(wire, "append", message=message_of(dialect, "ours")))["seq"] == 3
        assert (await event(wire))["seq"] == 3
        assert (await session_info(wire))["epoch"] == epoch


async def test_half_a_line_that_somebody_goes_on_with_is_one_line(
    real_house: House, watching: Watcher, dialect: str
) -> None:
    path = begun(real_house, dialect)
    async with real_house.daemon(watching) as daemon, daemon.connect() as wire:
        await wire.call("subscribe", session_id=SESSION)
        whole = line(dialect, "bbbbbbb1", "aaaaaaa2")
        write_as_another(path, whole[:20])
        actor = daemon.service.find(SESSION)
        assert actor is not None
        await eventually(lambda: actor.opened.journal.half_bytes == 20)
        write_as_another(path, whole[20:])
        assert (await event(wire))["id"] == "bbbbbbb1"
        assert path.read_bytes().endswith(whole)
        assert (await session_info(wire))["problems"] == 0


@pytest.mark.parametrize(
    ("left", "reason"), [(["aaaaaaa1"], "truncated"), (["ccccccc1", "aaaaaaa2"], "epoch")]
)
async def test_subscribers_of_a_file_that_was_replaced_are_told_and_get_the_new_one(
    real_house: House, watching: Watcher, dialect: str, left: list[str], reason: str
) -> None:
    path = begun(real_house, dialect)
    async with (
        real_house.daemon(watching) as daemon,
        daemon.connect() as wire,
        daemon.connect() as writer,
    ):
        epoch = (await wire.call("subscribe", session_id=SESSION))["epoch"]
        lease = await writer.call("session/acquire", session_id=SESSION, ttl_ms=60_000)
        replace(path, text_of(dialect, *left))
        notice = await wire.next_notification()
        assert notice["method"] == "session/replaced"
        told = notice["params"]
        assert (told["session_id"], told["reason"], told["epoch"] == epoch) == (
            SESSION,
            reason,
            False,
        )
        assert [(await event(wire))["id"] for _ in left] == left
        assert (await wire.next_notification())["method"] == "session/synced"
        refused = await writer.refusal(
            "session/renew", lease_id=lease["lease_id"], session_id=SESSION, ttl_ms=60_000
        )
        assert refused.data["kind"] == "lease_lost"
        answer = await call(writer, "append", message=message_of(dialect, "ours"))
        assert (answer["seq"], answer["entries"][0]["parent_id"]) == (len(left) + 1, left[-1])
        assert (await event(wire))["id"] == answer["leaf_id"]
        info = await session_info(wire)
        assert (info["epoch"], info["seq"]) == (told["epoch"], len(left) + 1)
        again = await writer.call("subscribe", session_id=SESSION, after={"seq": 1, "epoch": epoch})
        assert again["replaced"] == "epoch"
        live = await call(wire, "session/entries", IDS)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        assert await call(wire, "session/entries", IDS) == live
        assert (await session_info(wire))["epoch"] == told["epoch"]


async def test_a_file_that_is_cut_in_place_is_another_one(
    real_house: House, watching: Watcher
) -> None:
    path = begun(real_house, "native")
    async with real_house.daemon(watching) as daemon, daemon.connect() as wire:
        await wire.call("subscribe", session_id=SESSION)
        os.truncate(path, len(text_of("native", "aaaaaaa1")))
        assert (await wire.next_notification())["params"]["reason"] == "truncated"
        assert (await event(wire))["id"] == "aaaaaaa1"


async def test_a_copy_that_takes_the_place_of_the_file_goes_on_unnoticed(
    real_house: House, watching: Watcher, dialect: str
) -> None:
    path = begun(real_house, dialect)
    async with real_house.daemon(watching) as daemon, daemon.connect() as wire:
        epoch = (await wire.call("subscribe", session_id=SESSION))["epoch"]
        replace(path, path.read_bytes() + line(dialect, "bbbbbbb1", "aaaaaaa2"))
        assert (await event(wire))["id"] == "bbbbbbb1"
        # It is the new file that is watched, and written to.
        write_as_another(path, line(dialect, "bbbbbbb2", "bbbbbbb1"))
        assert (await event(wire))["id"] == "bbbbbbb2"
        assert (await call(wire, "append", message=message_of(dialect, "ours")))["seq"] == 5
        assert path.read_bytes().count(b"\n") == 6
        assert (await session_info(wire))["epoch"] == epoch


async def test_an_append_that_meets_another_file_is_stored_there(
    real_house: House, dialect: str
) -> None:
    path = begun(real_house, dialect)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await session_info(wire)
        replace(path, text_of(dialect, "ccccccc1"))
        answer = await call(wire, "append", message=message_of(dialect, "ours"))
        assert (answer["seq"], answer["entries"][0]["parent_id"]) == (2, "ccccccc1")
        assert b"ours" in path.read_bytes()


async def test_a_file_that_became_no_session_closes_it(
    real_house: House, watching: Watcher
) -> None:
    path = begun(real_house, "native")
    async with real_house.daemon(watching) as daemon, daemon.connect() as wire:
        await wire.call("subscribe", session_id=SESSION)
        replace(path, b"garbage\n")
        closed = await wire.next_notification()
        assert closed["method"] == "session/closed"
        assert closed["params"]["reason"] == "session_corrupt"
        refused = await wire.refusal("append", session_id=SESSION, message=message_of("native"))
        assert refused.data["kind"] == "session_corrupt"
        assert path.read_bytes() == b"garbage\n"


async def test_a_file_that_is_gone_is_not_made_again_and_goes_on_when_it_is_back(
    real_house: House, watching: Watcher, dialect: str
) -> None:
    path = begun(real_house, dialect)
    away = path.with_name("away")
    async with real_house.daemon(watching) as daemon, daemon.connect() as wire:
        await wire.call("subscribe", session_id=SESSION)
        path.rename(away)
        for _again in range(2):
            refused = await wire.refusal("append", session_id=SESSION, message=message_of(dialect))
            assert (refused.data["kind"], refused.data["errno"]) == ("storage_error", "ENOENT")
        assert not path.exists()
        write_as_another(away, line(dialect, "bbbbbbb1", "aaaaaaa2"))
        away.rename(path)
        assert (await event(wire))["id"] == "bbbbbbb1"
        write_as_another(path, line(dialect, "bbbbbbb2", "bbbbbbb1"))
        assert (await event(wire))["id"] == "bbbbbbb2"
        assert (await call(wire, "append", message=message_of(dialect, "ours")))["seq"] == 5


async def test_our_own_appends_need_no_look(real_house: House, watching: Watcher) -> None:
    begun(real_house, "native")
    async with real_house.daemon(watching) as daemon, daemon.connect() as wire:
        await wire.call("subscribe", session_id=SESSION)
        actor = daemon.service.find(SESSION)
        assert actor is not None
        changes: list[bool] = []
        looks: list[None] = []
        real_look, real_changed = actor.writer.look, actor._loop._monitor.changed

        async def look() -> bool:
            looks.append(None)
            return await real_look()

        def changed(name_too: bool) -> None:
            changes.append(name_too)
            real_changed(name_too)

        actor.writer.look = look  # type: ignore[method-assign]
        if isinstance(watching, InotifyWatcher):
            (receivers,) = watching._told.values()
            (told,) = receivers
            receivers[told] = changed
        else:
            (watch,) = watching._looked  # type: ignore[attr-defined]
            watch.changed = changed
        appended = 0
        with anyio.fail_after(PATIENCE_SECONDS):
            while len(changes) < 3:
                await call(wire, "append", message=message_of("native", "ours"))
                appended += 1
        # Told once in a while, and not at all of more than that it may have grown.
        assert len(changes) <= appended + 1
        if isinstance(watching, InotifyWatcher):
            assert looks == []


async def test_nobody_watches_what_nobody_has_open(real_house: House, watching: Watcher) -> None:
    begun(real_house, "native")
    async with real_house.daemon(watching) as daemon, daemon.connect() as wire:
        await session_info(wire)
        await wire.call("session/close", session_id=SESSION)
        actor = daemon.service.find(SESSION)
        if actor is not None:
            await actor.released.wait()
        of_inotify = watching._told if isinstance(watching, InotifyWatcher) else {}
        of_looks = watching._looked if isinstance(watching, PollingWatcher) else {}
        await eventually(lambda: not (of_inotify or of_looks))


# -- inotify alone ---------------------------------------------------------------------------


async def test_one_watch_too_many_is_looked_at_and_told_once(
    real_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[str] = []
    watching = inotify_watcher(PollingWatcher(real_house.files, 0.02), reported.append)
    path = begun(real_house, "native")

    def refuse(_result: int) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(watching, "_call", refuse)
    async with real_house.daemon(watching) as daemon, daemon.connect() as wire:
        await wire.call("subscribe", session_id=SESSION)
        for n in range(2):
            write_as_another(path, line("native", f"bbbbbbb{n}", "aaaaaaa2"))
            assert (await event(wire))["id"] == f"bbbbbbb{n}"
    assert reported == [
        "fs.inotify.max_user_watches files are watched; further session files are polled"
    ]


async def test_files_of_a_file_system_that_others_change_are_looked_at(
    real_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    watching = inotify_watcher(PollingWatcher(real_house.files, 0.02))
    # What is done to a branch of mergerfs is no event of the merged folder.
    monkeypatch.setattr(type(SYSTEM), "is_local", lambda _self, _path: False)
    path = begun(real_house, "native")
    assert not watching.folders.watch(path.parent)
    async with real_house.daemon(watching) as daemon, daemon.connect() as wire:
        await wire.call("subscribe", session_id=SESSION)
        assert not watching._told
        write_as_another(path, line("native", "bbbbbbb1", "aaaaaaa2"))
        assert (await event(wire))["id"] == "bbbbbbb1"


async def test_where_some_changes_were_not_told_of_all_may_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watching = inotify_watcher(PollingWatcher(Files()))
    calls: list[tuple[str, bool]] = []
    for name in ("a", "b"):
        path = tmp_path / name
        path.touch()
        watching.watch(lambda path=path: path, lambda moved, name=name: calls.append((name, moved)))  # type: ignore[misc]
    overflow = struct.pack("iIII", -1, OVERFLOW, 0, 0)
    monkeypatch.setattr(os, "read", lambda _fd, _count: overflow)
    for changed, moved in watching._changes():
        changed(moved)
    assert calls == [("a", True), ("b", True)]
    monkeypatch.undo()
    os.close(watching._fd)
    assert isinstance(watching.folders, InotifyFolders)
    watching.folders.close()


def test_without_inotify_files_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[str] = []

    def refuse(*_args: object) -> InotifyWatcher:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(inotify, "InotifyWatcher", refuse)
    monkeypatch.setattr(inotify, "SYSTEM", LINUX)
    assert isinstance(inotify.best_watcher(Files(), reported.append), PollingWatcher)
    assert reported == ["session files are polled twice a second: inotify: Too many open files"]
    monkeypatch.setattr(inotify, "SYSTEM", MACOS)
    assert isinstance(inotify.best_watcher(Files(), reported.append), PollingWatcher)
    assert len(reported) == 1
