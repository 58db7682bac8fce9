"""A data folder that cannot be used, or whose parts are elsewhere: said clearly, and nothing lost."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from tests.processes.conftest import Mount
from tests.processes.harness.daemon import Daemon, running
from tests.processes.harness.link import Refused

pytestmark = pytest.mark.slow

SESSION = "session-a"


@pytest.fixture
def said(socket_path: Path) -> Path:
    """The daemon's log is no part of these tests, and not to be on their disks."""
    return socket_path.with_name("log")


def a_daemon(socket_path: Path, home: Path, said: Path) -> Daemon:
    daemon = Daemon(socket_path, home)
    daemon.log = said
    return daemon


def refuses_to_start(daemon: Daemon) -> str:
    """Its last words."""
    daemon.start()
    try:
        assert daemon.end() == 1, daemon.said()
    finally:
        daemon.discard()
    assert "Traceback" not in daemon.said()
    assert not daemon.socket_path.exists()
    return daemon.said()


def filled(daemon: Daemon, *texts: str) -> list[str]:
    """Start it, say something, and end it."""
    with running(daemon), daemon.connect() as link:
        link.ask("session/create", cwd="/p", session_id=SESSION, persist="immediate")
        for text in texts:
            link.say(SESSION, text)
    return list(texts)


def snapshot(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*.jsonl*")}


@pytest.mark.parametrize("below", ["", "data"])
def test_a_home_that_is_a_file_is_named_and_kept(
    tmp_path: Path, socket_path: Path, said: Path, below: str
) -> None:
    file = tmp_path / "notes"
    file.write_bytes(b"my notes\n")
    words = refuses_to_start(a_daemon(socket_path, file / below, said))
    assert f"the data folder {file / below} cannot be used: Not a directory" in words
    assert "$SESSIOND_HOME" in words
    assert file.read_bytes() == b"my notes\n"


def test_a_home_on_a_disk_that_is_read_only_is_named_and_works_again_later(
    tmp_path: Path, mounted: Mount, socket_path: Path, said: Path
) -> None:
    disk = mounted(tmp_path / "disk", "size=4m")
    daemon = a_daemon(socket_path, disk / "data", said)
    kept = filled(daemon, "one", "two")
    before = snapshot(disk)
    mounted(disk, "remount,ro")
    words = refuses_to_start(daemon)
    assert f"the data folder {disk / 'data'} cannot be used: Read-only file system" in words
    assert snapshot(disk) == before
    mounted(disk, "remount,rw")
    with running(daemon), daemon.connect() as link:
        assert link.contents(SESSION) == kept


def test_a_new_home_on_a_disk_that_is_read_only_is_named(
    tmp_path: Path, mounted: Mount, socket_path: Path, said: Path
) -> None:
    disk = mounted(tmp_path / "disk", "size=1m,ro")
    words = refuses_to_start(a_daemon(socket_path, disk / "data", said))
    assert f"the data folder {disk / 'data'} cannot be used: Read-only file system" in words


def test_a_disk_that_is_full_at_the_start_is_told_and_costs_nothing(
    tmp_path: Path, mounted: Mount, socket_path: Path, said: Path
) -> None:
    disk = mounted(tmp_path / "disk", "size=2m")
    daemon = a_daemon(socket_path, disk / "data", said)
    kept = filled(daemon, "one", "two")
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as out, suppress(OSError):
        while True:
            out.write(bytes(4096))
    assert filler.stat().st_size
    before = snapshot(disk / "data")
    words = refuses_to_start(daemon)
    assert "catalog.sqlite" in words
    assert snapshot(disk / "data") == before
    filler.unlink()
    with running(daemon), daemon.connect() as link:
        assert link.contents(SESSION) == kept
        link.say(SESSION, "three")


def test_a_trash_on_another_device_takes_a_session_as_it_is(
    tmp_path: Path, mounted: Mount, socket_path: Path, said: Path
) -> None:
    daemon = a_daemon(socket_path, tmp_path / "data", said)
    filled(daemon, "one", "two")
    trash = mounted(daemon.profile / "trash", "size=4m")
    ((path, content),) = snapshot(daemon.home).items()
    with running(daemon), daemon.connect() as link:
        assert link.ask("session/delete", session_id=SESSION) == {}
        assert snapshot(daemon.home) == {trash / path.name: content}
        assert (trash / path.name).stat().st_mode & 0o777 == 0o600
        with pytest.raises(Refused, match="no session of this id"):
            link.ask("session/get", session_id=SESSION)
        assert link.ask("session/purge", session_id=SESSION) == {}
        assert snapshot(daemon.home) == {}


def test_a_trash_on_another_device_that_is_full_leaves_the_session_where_it_is(
    tmp_path: Path, mounted: Mount, socket_path: Path, said: Path
) -> None:
    daemon = a_daemon(socket_path, tmp_path / "data", said)
    kept = filled(daemon, "x" * 200_000)
    mounted(daemon.profile / "trash", "size=64k")
    before = snapshot(daemon.home)
    with running(daemon), daemon.connect() as link:
        with pytest.raises(Refused) as refused:
            link.ask("session/delete", session_id=SESSION)
        assert (refused.value.kind, refused.value.data["errno"]) == ("storage_error", "ENOSPC")
        assert snapshot(daemon.home) == before
        assert link.contents(SESSION) == kept
        link.say(SESSION, "two")
