"""Foreign programs write in the folders of roots: connections that watch are told, lists cost little."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest

from sessiond.journal.disk.files import Files
from sessiond.service.external.folder_notices import InotifyFolders
from sessiond.service.external.watcher import PollingWatcher
from sessiond.system import SYSTEM
from tests.kit.calls import call, part_of
from tests.kit.house import House
from tests.kit.inotify import inotify_folders, inotify_watcher
from tests.kit.limits import set_limits
from tests.kit.roots import add_root, ids, pi_file, pi_line, put
from tests.service.test_roots import Counting

APPEND = "import sys; open(sys.argv[1], 'ab').write(sys.argv[2].encode() + b'\\n')"

pytestmark = [
    pytest.mark.skipif(not SYSTEM.has_inotify, reason="this system has no inotify"),
    pytest.mark.both_loops,
    pytest.mark.platform,
    pytest.mark.limits(CATALOG_FLUSH_SECONDS=0.01, WATCH_SECONDS=0.01),
]
HINT = "params.{session_id,change}"


async def test_watching_connections_are_told_of_new_grown_and_removed_files(
    real_house: House, tmp_path: Path
) -> None:
    root = tmp_path.resolve() / "pi"
    put(root / "--p--", "one", pi_file("session-p1", "x"))
    watcher = inotify_watcher(PollingWatcher(real_house.files))
    async with real_house.daemon(watcher) as daemon, daemon.connect() as wire:
        await wire.call("catalog/subscribe")
        await add_root(wire, root, "pi")
        assert part_of(await wire.next_notification(), HINT) == ("session-p1", "created")
        # In a folder that the program makes with the file.
        new = put(root / "--new--", "two", pi_file("session-p2", "x"), old=False)
        assert part_of(await wire.next_notification(), HINT) == ("session-p2", "created")
        line = json.dumps(pi_line("10000001", "10000000", "more"))
        await anyio.run_process([sys.executable, "-c", APPEND, str(new), line])
        assert part_of(await wire.next_notification(), HINT) == ("session-p2", "updated")
        shutil.rmtree(new.parent)
        assert part_of(await wire.next_notification(), HINT) == ("session-p2", "deleted")
        root.rename(root.with_name("away"))
        assert part_of(await wire.next_notification(), HINT) == ("session-p1", "deleted")


async def test_a_subscriber_gets_what_another_program_appends_to_a_file_of_a_root(
    real_house: House, tmp_path: Path
) -> None:
    path = put(tmp_path.resolve() / "pi", "one", pi_file("session-p1", "x"), old=False)
    watcher = inotify_watcher(PollingWatcher(real_house.files))
    async with real_house.daemon(watcher) as daemon, daemon.connect() as wire:
        await add_root(wire, path.parent)
        await ids(wire)
        await wire.call("subscribe", session_id="session-p1")
        line = json.dumps(pi_line("10000001", "10000000", "from pi"))
        await anyio.run_process([sys.executable, "-c", APPEND, str(path), line])
        event = (await wire.next_notification())["params"]
        assert (event["entry"]["id"], event["origin"]) == ("10000001", {"external": True})
        message = {"role": "user", "content": "from us", "timestamp": 1769936401000}
        stored = await wire.call("session/append", session_id="session-p1", message=message)
        assert stored["entries"][0]["parent_id"] == "10000001"
        assert (await call(wire, "session/list", "sessions[].message_count"))[0] == 3


async def test_a_list_of_unchanged_roots_costs_the_same_for_any_number_of_folders(
    home: Path, tmp_path: Path
) -> None:
    counting = Counting(home)
    watcher = inotify_watcher(PollingWatcher(counting.house.files))
    listed: list[str] = []
    async with counting.house.daemon(watcher) as daemon, daemon.connect() as wire:
        for count in (0, 1, 20):
            root = tmp_path.resolve() / f"pi-{count}"
            root.mkdir()
            for number in range(count):
                session_id = f"session-{count}-{number}"
                put(root / f"--p{number}--", "one", pi_file(session_id, "x"))
            await add_root(wire, root, "pi")
            listed = list(await ids(wire))
            counting.looked.clear()
            assert await ids(wire) == listed
            looked = [
                one for one in counting.looked if tmp_path.resolve() / "home" not in one.parents
            ]
            assert looked == []
    assert len(listed) == 21


async def test_a_list_shows_what_was_written_right_before(
    real_house: House, tmp_path: Path
) -> None:
    """The notice of a change is taken in by the list itself, however late the loop is."""
    root = tmp_path.resolve() / "pi"
    root.mkdir()
    watcher = inotify_watcher(PollingWatcher(real_house.files))
    async with real_house.daemon(watcher) as daemon, daemon.connect() as wire:
        await add_root(wire, root, "pi")
        # A list looks at folders that are new, and then takes in every notice.
        for folder in real_house.layout.folders:
            os.utime(folder, (0, 0))
        await ids(wire)
        for number in range(5):
            put(root, f"f{number}", pi_file(f"session-{number}", "x"), old=False)
            assert len(await ids(wire)) == number + 1


@pytest.fixture
def notices() -> Iterator[InotifyFolders]:
    made = inotify_folders()
    yield made
    made.close()


def test_notices_name_what_changed_and_lose_nothing(
    tmp_path: Path, notices: InotifyFolders
) -> None:
    assert not InotifyFolders(lambda _text: None).watch(tmp_path), "it has no descriptor yet"
    below = tmp_path / "below"
    below.mkdir()
    assert notices.watch(tmp_path)
    assert notices.watch(below)
    assert not notices.watch(tmp_path / "missing")
    assert (notices.has_any(), notices.take()) == (False, {})
    (tmp_path / "a").write_bytes(b"x")
    (below / "b").write_bytes(b"x")
    assert notices.has_any()
    assert notices.take() == {tmp_path: {"a"}, below: {"b"}}
    (tmp_path / "a").rename(below / "c")
    assert notices.take() == {tmp_path: {"a"}, below: {"c"}}
    # A folder that changes its name is another path: it is told as a whole, and watched no more.
    below.rename(tmp_path / "other")
    assert notices.take() == {tmp_path: {"below", "other"}, below: None}
    assert (notices.covers(below), notices.covers(tmp_path)) == (False, True)
    notices.end(tmp_path)
    (tmp_path / "d").write_bytes(b"x")
    assert notices.take() == {}


def test_folders_count_as_changed_when_notices_are_lost(
    tmp_path: Path, notices: InotifyFolders
) -> None:
    assert notices.watch(tmp_path)
    overflow: Callable[[bytes], None] = notices._take_in
    overflow((-1).to_bytes(4, "little", signed=True) + (0x4000).to_bytes(4, "little") + bytes(8))
    assert notices.take() == {tmp_path: None}
    assert notices.covers(tmp_path)
    notices.close()
    assert (notices.take(), notices.covers(tmp_path)) == ({tmp_path: None}, False)


async def test_without_notices_the_folders_are_polled_while_a_connection_watches(
    real_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, ROOT_POLL_SECONDS=0.01)
    assert not PollingWatcher(Files()).folders.watch(Path("/"))
    root = tmp_path.resolve() / "pi"
    root.mkdir()
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root, "pi")
        await ids(wire)
        await wire.call("catalog/subscribe")
        put(root, "one", pi_file("session-p1", "x"))
        assert part_of(await wire.next_notification(), HINT) == ("session-p1", "created")
