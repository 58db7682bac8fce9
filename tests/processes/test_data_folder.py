"""A data folder that is unusable, or whose parts are elsewhere: clear messages, and no loss."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from tests.kit.link import Refused
from tests.kit.long_paths import HOME_BYTES_MAX, deep
from tests.kit.sessions import SESSION, native_header
from tests.processes.conftest import Mount
from tests.processes.harness.daemon import Daemon, running

pytestmark = pytest.mark.slow

HEADER: Final = native_header("elsewhere")


def snapshot(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*.jsonl*")}


@pytest.mark.parametrize("below", ["", "data"])
def test_a_home_that_is_a_file_is_named_and_kept(
    tmp_path: Path, socket_path: Path, below: str
) -> None:
    file = tmp_path / "notes"
    file.write_bytes(b"my notes\n")
    daemon = Daemon(socket_path, file / below, log=socket_path.with_name("log"))
    words = daemon.start_in_vain()
    assert "Traceback" not in daemon.said()
    assert not socket_path.exists()
    assert f"the data folder {file / below} cannot be used: Not a directory" in words
    assert "$SESSIOND_HOME" in words
    assert file.read_bytes() == b"my notes\n"


def test_a_home_on_a_disk_that_is_read_only_is_named_and_works_again_later(
    tmp_path: Path, mounted: Mount, socket_path: Path
) -> None:
    disk = mounted(tmp_path / "disk", "size=4m")
    daemon = Daemon(socket_path, disk / "data", log=socket_path.with_name("log"))
    kept = ["one", "two"]
    with running(daemon), daemon.connect() as link:
        link.create(*kept)
    before = snapshot(disk)
    mounted(disk, "remount,ro")
    words = daemon.start_in_vain()
    assert "Traceback" not in daemon.said()
    assert not socket_path.exists()
    assert f"the data folder {disk / 'data'} cannot be used: Read-only file system" in words
    assert snapshot(disk) == before
    mounted(disk, "remount,rw")
    with running(daemon), daemon.connect() as link:
        assert link.contents(SESSION) == kept


def test_a_new_home_on_a_disk_that_is_read_only_is_named(
    tmp_path: Path, mounted: Mount, socket_path: Path
) -> None:
    disk = mounted(tmp_path / "disk", "size=1m,ro")
    daemon = Daemon(socket_path, disk / "data", log=socket_path.with_name("log"))
    words = daemon.start_in_vain()
    assert "Traceback" not in daemon.said()
    assert not socket_path.exists()
    assert f"the data folder {disk / 'data'} cannot be used: Read-only file system" in words


def test_a_home_whose_path_leaves_no_room_for_names_is_named(
    tmp_path: Path, socket_path: Path
) -> None:
    home = deep(tmp_path, HOME_BYTES_MAX + 1)
    daemon = Daemon(socket_path, home, log=socket_path.with_name("log"))
    words = daemon.start_in_vain()
    assert "Traceback" not in daemon.said()
    assert (
        f"the data folder {home} cannot be used: its path has {HOME_BYTES_MAX + 1} bytes" in words
    )
    assert not home.exists()


def test_a_disk_that_is_full_at_the_start_is_told_and_costs_no_reader_a_session(
    tmp_path: Path, mounted: Mount, socket_path: Path
) -> None:
    disk = mounted(tmp_path / "disk", "size=2m")
    daemon = Daemon(socket_path, disk / "data", log=socket_path.with_name("log"))
    kept = ["one", "two"]
    with running(daemon), daemon.connect() as link:
        link.create(*kept)
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as out, suppress(OSError):
        while True:
            out.write(bytes(4096))
    assert filler.stat().st_size
    before = snapshot(disk / "data")
    with running(daemon), daemon.connect() as link:
        assert link.contents(SESSION) == kept
        with pytest.raises(Refused) as refused:
            link.say(SESSION, "three")
        assert (refused.value.kind, refused.value.data["errno"]) == ("storage_error", "ENOSPC")
        filler.unlink()
        link.say(SESSION, "three")
        assert link.contents(SESSION) == [*kept, "three"]
    assert "catalog.sqlite" in daemon.said()
    (content,), (content_before,) = snapshot(disk / "data").values(), before.values()
    assert content.startswith(content_before)


def test_a_trash_on_another_device_takes_a_session_as_it_is(
    tmp_path: Path, mounted: Mount, socket_path: Path
) -> None:
    daemon = Daemon(socket_path, tmp_path / "data", log=socket_path.with_name("log"))
    with running(daemon), daemon.connect() as link:
        link.create("one", "two")
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
    tmp_path: Path, mounted: Mount, socket_path: Path
) -> None:
    daemon = Daemon(socket_path, tmp_path / "data", log=socket_path.with_name("log"))
    kept = ["x" * 200_000]
    with running(daemon), daemon.connect() as link:
        link.create(*kept)
    mounted(daemon.profile / "trash", "size=64k")
    before = snapshot(daemon.home)
    with running(daemon), daemon.connect() as link:
        with pytest.raises(Refused) as refused:
            link.ask("session/delete", session_id=SESSION)
        assert (refused.value.kind, refused.value.data["errno"]) == ("storage_error", "ENOSPC")
        assert snapshot(daemon.home) == before
        assert link.contents(SESSION) == kept
        link.say(SESSION, "two")


# What is asked of a daemon whose folder is gone, with how it may be refused.
ASKED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("session/append", {"session_id": "session-open", "message": {"role": "user"}}),
    ("session/append", {"session_id": "session-draft", "message": {"role": "assistant"}}),
    ("session/append", {"session_id": "session-closed", "message": {"role": "user"}}),
    ("session/create", {"cwd": "/p", "persist": "immediate"}),
    ("session/create", {"cwd": "/p"}),
    ("session/list", {"drafts": True}),
    ("session/search", {"query": "one"}),
    ("session/archive", {"session_id": "session-open"}),
    ("session/import", {"content": json.dumps(HEADER)}),
    ("session/delete", {"session_id": "session-open"}),
)


@pytest.mark.parametrize(
    "gone", ["sessions", "pending", "archive", "trash", "../../locks", "", "../.."]
)
def test_a_folder_that_goes_while_the_daemon_runs_is_told_and_ends_nothing(
    tmp_path: Path, socket_path: Path, gone: str
) -> None:
    daemon = Daemon(socket_path, tmp_path / "data", log=socket_path.with_name("log"))
    with running(daemon), daemon.connect() as link:
        for session_id in ("session-open", "session-draft", "session-closed"):
            persist = "on_assistant" if session_id == "session-draft" else "immediate"
            link.create("one", session_id=session_id, persist=persist)
        link.ask("session/search", query="one")
        link.ask("session/close", session_id="session-closed")
        folder = (daemon.profile / gone).resolve()
        # The daemon may remove some files first.
        while folder.exists():
            with suppress(FileNotFoundError):
                shutil.rmtree(folder)
        refusals: list[Refused] = []
        for method, params in ASKED:
            try:
                answer = link.ask(method, **params)
            except Refused as refusal:
                refusals.append(refusal)
                continue
            # An entry that was acknowledged is in a file.
            for entry in answer["entries"] if method == "session/append" else ():
                files = daemon.files(params["session_id"])
                assert any(entry["id"].encode() in path.read_bytes() for path in files), method
        assert {refusal.kind for refusal in refusals} <= {"storage_error", "session_not_found"}
        assert {refusal.data.get("errno", "ENOENT") for refusal in refusals} <= {"ENOENT"}
        assert not any(refusal.data["retryable"] for refusal in refusals)
        assert refusals or gone == "../../locks"
        for name in ("sessions", "archive", "pending", "trash", "../../locks"):
            (daemon.profile / name).resolve().mkdir(parents=True, exist_ok=True)
        link.create("two")
        assert link.contents(SESSION) == ["two"]


def test_a_profile_that_was_moved_away_is_named_and_goes_on_when_it_is_back(
    tmp_path: Path, socket_path: Path
) -> None:
    daemon = Daemon(socket_path, tmp_path / "data", log=socket_path.with_name("log"))
    with running(daemon), daemon.connect() as link, daemon.connect() as watcher:
        epochs: dict[str, str] = {}
        for session_id in ("session-open", "session-closed"):
            link.create("one", session_id=session_id)
            epochs[session_id] = link.ask("session/get", session_id=session_id)["session"]["epoch"]
        watcher.ask("session/subscribe", session_id="session-open")
        link.ask("session/close", session_id="session-closed")
        elsewhere = daemon.profile.rename(daemon.profile.with_name("elsewhere"))
        for method, params in (
            ("session/list", {}),
            ("session/get", {"session_id": "session-closed"}),
            ("session/append", {"session_id": "session-open", "message": {"role": "user"}}),
            ("session/create", {"cwd": "/p"}),
            ("session/fork", {"session_id": "session-open"}),
        ):
            with pytest.raises(
                Refused, match=rf"{daemon.profile}, is gone|{daemon.profile} is not there"
            ):
                link.ask(method, **params)
        # What was read before can be read still, and be saved that way.
        assert link.contents("session-open") == ["one"]
        assert not daemon.profile.exists()
        elsewhere.rename(daemon.profile)
        for session_id, epoch in epochs.items():
            assert link.say(session_id, "two")["seq"] == 2
            assert link.ask("session/get", session_id=session_id)["session"]["epoch"] == epoch
        assert watcher.message()["params"]["seq"] == 2
        listed = link.ask("session/list")["sessions"]
        assert {one["id"]: one["epoch"] for one in listed} == epochs
