"""A disk that is really full: nothing acknowledged is lost, and work goes on when there is room."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessiond.limits import INDEX_FREE_BYTES
from tests.kit.link import Link, Refused
from tests.kit.patience import soon
from tests.kit.sessions import SESSION
from tests.processes.conftest import Mount
from tests.processes.harness.daemon import Daemon, running
from tests.processes.harness.load import Appender, Watcher, at_work, what_is_wrong

pytestmark = pytest.mark.slow

DISK_BYTES = 4 << 20
FILLER_BYTES = 1 << 20
ENTRY_BYTES = 100_000


def test_a_full_disk_refuses_and_loses_nothing(
    tmp_path: Path, mounted: Mount, socket_path: Path
) -> None:
    disk = mounted(tmp_path / "disk", f"size={DISK_BYTES}")
    filler = disk / "filler"
    filler.write_bytes(bytes(FILLER_BYTES))
    # Its log is no part of the test, and there will be no room for it.
    daemon = Daemon(socket_path, disk / "data", log=socket_path.with_name("log"))
    with running(daemon), daemon.connect() as link, daemon.connect() as watching:
        link.create()
        watching.ask("session/subscribe", session_id=SESSION)
        kept: list[str] = []
        full = None
        while full is None:
            assert len(kept) < DISK_BYTES // ENTRY_BYTES, "the disk never got full"
            content = f"{len(kept)} ".ljust(ENTRY_BYTES, "x")
            try:
                assert link.say(SESSION, content)["durability"] == "disk"
                kept.append(content)
            except Refused as error:
                full = error
        assert (full.kind, full.data["errno"]) == ("storage_error", "ENOSPC")
        assert full.data["retryable"] is True
        assert len(kept) > 10
        assert_all_agree(daemon, link, kept)
        # Nothing got lighter by itself: the next one is refused as well, in the same words.
        message = {"role": "user", "content": "y" * ENTRY_BYTES}
        refused = link.refusal("session/append", session_id=SESSION, message=message)
        assert refused.data["errno"] == "ENOSPC"
        assert_all_agree(daemon, link, kept)
        filler.unlink()
        kept.append("there is room again")
        assert link.say(SESSION, kept[-1])["seq"] == len(kept)
        kept.append("z" * ENTRY_BYTES)
        assert link.say(SESSION, kept[-1])["seq"] == len(kept)
        assert_all_agree(daemon, link, kept)
        # The subscriber starts to read now; it may have lagged meanwhile.
        events = [watching.event() for _ in kept]
        assert [event["seq"] for event in events] == list(range(1, len(kept) + 1))
        assert [event["entry"]["message"]["content"] for event in events] == kept
    with running(daemon), daemon.connect() as link:
        assert_all_agree(daemon, link, kept)


def test_a_disk_that_fills_under_load_and_is_freed_holds_what_was_acknowledged(
    tmp_path: Path, mounted: Mount, socket_path: Path
) -> None:
    disk = mounted(tmp_path / "disk", f"size={DISK_BYTES}")
    filler = disk / "filler"
    daemon = Daemon(socket_path, disk / "data")
    # On the disk that gets full, as the log of a daemon in the background is.
    assert daemon.log.parent == disk
    with running(daemon):
        with daemon.connect() as link:
            for session_id in (SESSION, "session-b"):
                link.ask("session/create", cwd="/p", session_id=session_id, persist="immediate")
        appenders = [Appender(daemon, SESSION, f"here{n}") for n in range(3)]
        other = Appender(daemon, "session-b", "there")
        watcher = Watcher(daemon, SESSION, "watcher")
        with at_work(*appenders, other, watcher):
            for _again in range(2):
                for appender in (*appenders, other):
                    appender.wait_stored()
                fill_with(filler)
                for appender in (*appenders, other):
                    appender.wait_refused()
                filler.unlink()
                for appender in (*appenders, other):
                    appender.wait_stored()
        for appender in (*appenders, other):
            assert {*appender.refusals} == {"ENOSPC"}
        assert what_is_wrong(daemon, appenders, [watcher]) == []
        assert what_is_wrong(daemon, [other]) == []
        fill_with(filler)
        # Its last words find no room; it ends as it should all the same.
    filler.unlink()


def assert_all_agree(daemon: Daemon, link: Link, kept: list[str]) -> None:
    """Check that the daemon's memory, its reading of the file, and the file agree."""
    info = link.ask("session/get", session_id=SESSION)["session"]
    assert info["seq"] == len(kept)
    assert link.contents(SESSION) == kept
    (path,) = daemon.files(SESSION)
    lines = path.read_bytes().split(b"\n")
    assert lines.pop() == b""
    assert len(lines) == 1 + len(kept)
    assert info["leaf_id"].encode() in lines[-1]
    for content, line in zip(kept, lines[1:], strict=True):
        assert content.encode() in line


def test_on_a_full_disk_nothing_is_created_and_what_is_there_is_served(
    tmp_path: Path, mounted: Mount, socket_path: Path
) -> None:
    disk = mounted(tmp_path / "disk", f"size={DISK_BYTES}")
    filler = disk / "filler"
    daemon = Daemon(socket_path, disk / "data", log=socket_path.with_name("log"))
    with running(daemon):
        with daemon.connect() as link:
            link.create("here")
        fill_with(filler)
        with daemon.connect() as link:
            refused = link.refusal("session/create", cwd="/p", session_id="session-b")
            assert refused.data["errno"] == "ENOSPC"
            assert daemon.files("session-b") == []
            assert link.contents(SESSION) == ["here"]
            filler.unlink()
            link.ask("session/create", cwd="/p", session_id="session-b")
            link.say("session-b", "too")


def test_a_daemon_that_finds_the_disk_full_serves_readers_and_forgets_nothing(
    tmp_path: Path, mounted: Mount, socket_path: Path
) -> None:
    disk = mounted(tmp_path / "disk", f"size={DISK_BYTES}")
    filler = disk / "filler"
    daemon = Daemon(socket_path, disk / "data", log=socket_path.with_name("log"))
    with running(daemon), daemon.connect() as link:
        link.create("here")
        epoch = link.ask("session/subscribe", session_id=SESSION)["epoch"]
    fill_with(filler)
    daemon.log.unlink()
    with running(daemon), daemon.connect() as link:
        # SQLite has no room for the log that it makes for readers, too.
        assert link.ask("session/subscribe", session_id=SESSION)["epoch"] == epoch
        assert link.contents(SESSION) == ["here"]
        with pytest.raises(Refused) as refused:
            link.say(SESSION, "no room")
        assert (refused.value.kind, refused.value.data["errno"]) == ("storage_error", "ENOSPC")
    assert "catalog.sqlite" in daemon.said()
    with running(daemon), daemon.connect() as link:
        filler.unlink()
        # What stood in for the catalog is written to its file now.
        assert len(link.ask("session/list")["sessions"]) == 1
        assert not link.ask("server/stats")["catalog"]["in_memory"]
    with running(daemon), daemon.connect() as link:
        # The epoch is nowhere but in the catalog.
        assert link.ask("session/subscribe", session_id=SESSION)["epoch"] == epoch
        assert link.contents(SESSION) == ["here"]


def fill_with(path: Path) -> None:
    """Write a file that fills the disk."""
    with path.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


def test_the_search_index_leaves_the_last_room_to_sessions(
    tmp_path: Path, mounted: Mount, socket_path: Path
) -> None:
    disk = mounted(tmp_path / "disk", f"size={INDEX_FREE_BYTES + DISK_BYTES}")
    filler = disk / "filler"
    filler.write_bytes(bytes(DISK_BYTES))
    daemon = Daemon(socket_path, disk / "data", log=socket_path.with_name("log"))
    with running(daemon), daemon.connect() as link:
        link.create()
        link.say(SESSION, "a needle")
        asked = {"query": "needle", "session_id": SESSION}
        refused = link.refusal("session/search", **asked)
        assert (refused.kind, refused.data["errno"]) == ("storage_error", "ENOSPC")
        assert "32 MiB free" in str(refused)
        assert link.say(SESSION, "a needle too")["durability"] == "disk"
        daemon.restart()
        with daemon.connect() as again:
            said = soon(lambda: again.ask("server/stats")["index"]["problem"])
            assert "almost full" in said
            assert again.say(SESSION, "a third needle")["durability"] == "disk"
            filler.unlink()
            assert len(again.ask("session/search", **asked)["hits"]) == 3
