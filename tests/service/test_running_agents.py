"""Lists say whether the program of another agent runs on a session now."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sessiond.limits import RUNNING_FILE_BYTES_MAX, RUNNING_SECONDS
from sessiond.testing.wire import Wire
from tests.kit.agent_roots import CLAUDE, claude_root, codex_root
from tests.kit.calls import create
from tests.kit.house import House
from tests.kit.roots import add_root
from tests.kit.sessions import SESSION

FIRST, SECOND = CLAUDE.format(1), CLAUDE.format(2)
# No process of this machine has such an id.
ENDED = 2**31 - 1


def register(root: Path, session_id: str, status: Any, pid: int | None = None, **more: Any) -> Path:
    """Write what Claude Code writes of a process; by default, of the process of this test."""
    pid = os.getpid() if pid is None else pid
    path = root.parent / "sessions" / f"{pid}.json"
    path.parent.mkdir(exist_ok=True)
    about = {"pid": pid, "sessionId": session_id, "status": status, "cwd": "/home/ann/ping", **more}
    path.write_text(json.dumps(about), encoding="utf-8")
    return path


async def running(wire: Wire) -> dict[str, str]:
    """Return what a list says of the sessions whose program runs."""
    page = await wire.call("session/list", subagents=True)
    return {one["id"]: one["running"] for one in page["sessions"] if "running" in one}


async def running_in(house: House, root: Path) -> dict[str, str]:
    """Return what `running` returns of a new daemon that has the folder as a root."""
    async with house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        return await running(wire)
    raise AssertionError("a daemon ends no test")


async def test_a_list_says_whether_the_program_of_a_session_is_busy(
    real_house: House, tmp_path: Path
) -> None:
    root = claude_root(tmp_path.resolve())
    register(root, FIRST, "busy")
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        assert await running(wire) == {FIRST: "busy"}
        # Only the file changes, not the folder.
        register(root, FIRST, "idle")
        assert await running(wire) == {FIRST: "busy"}
        real_house.seconds += RUNNING_SECONDS
        assert await running(wire) == {FIRST: "idle"}
        register(root, SECOND, "busy")
        real_house.seconds += RUNNING_SECONDS
        assert await running(wire) == {SECOND: "busy"}


async def test_of_two_programs_on_one_session_the_busy_one_counts(
    real_house: House, tmp_path: Path
) -> None:
    root = claude_root(tmp_path.resolve())
    register(root, FIRST, "busy")
    register(root, FIRST, "idle", os.getppid())
    assert await running_in(real_house, root) == {FIRST: "busy"}


async def test_the_root_of_one_project_has_the_registry_of_all(
    real_house: House, tmp_path: Path
) -> None:
    root = claude_root(tmp_path.resolve())
    register(root, FIRST, "busy")
    assert await running_in(real_house, root / "-home-ann-ping") == {FIRST: "busy"}


async def test_nothing_is_read_of_a_registry_whose_folder_is_no_root(
    real_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path.resolve()
    root = claude_root(home)
    register(root, FIRST, "busy")
    looked: list[Path] = []
    listed = real_house.files.listdir

    def listdir(folder: Path) -> list[str]:
        looked.append(folder)
        return listed(folder)

    monkeypatch.setattr(real_house.files, "listdir", listdir)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, codex_root(home))
        await add_root(wire, root, "pi")
        await create(wire, SESSION)
        assert await running(wire) == {}
    assert home / "claude" / "sessions" not in looked


async def test_a_process_that_has_ended_runs_no_more(real_house: House, tmp_path: Path) -> None:
    root = claude_root(tmp_path.resolve())
    register(root, FIRST, "busy", ENDED)
    assert await running_in(real_house, root) == {}


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system tells no starts")
async def test_a_process_that_has_the_id_of_an_ended_one_is_not_taken_for_it(
    real_house: House, tmp_path: Path
) -> None:
    root = claude_root(tmp_path.resolve())
    # When a process began, as Claude Code spells it on Linux.
    start, start_of_parent = [
        Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[19]
        for pid in (os.getpid(), os.getppid())
    ]
    register(root, FIRST, "busy", procStart=str(int(start) - 1))
    register(root, SECOND, "busy", os.getppid(), procStart=start_of_parent)
    assert await running_in(real_house, root) == {SECOND: "busy"}


async def test_a_process_from_before_the_start_of_the_machine_has_ended(
    real_house: House, tmp_path: Path
) -> None:
    root = claude_root(tmp_path.resolve())
    os.utime(register(root, FIRST, "busy"), (1, 1))
    assert await running_in(real_house, root) == {}


BAD: dict[str, bytes] = {
    "empty": b"",
    "half": b'{"pid":',
    "no object": b"[]",
    "no session": b'{"pid":%d,"status":"busy"}',
    "another process": b'{"pid":1,"sessionId":"%s","status":"busy"}',
    "pid of a wrong type": b'{"pid":"x","sessionId":"%s","status":"busy"}',
    "an unknown state": b'{"pid":%d,"sessionId":"%s","status":"waiting"}',
    "too large": b'{"pid":%d,"sessionId":"%s","status":"busy"}' + b" " * RUNNING_FILE_BYTES_MAX,
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
async def test_a_damaged_registry_says_nothing(
    real_house: House, tmp_path: Path, content: bytes
) -> None:
    root = claude_root(tmp_path.resolve())
    path = register(root, FIRST, "busy")
    content = content.replace(b"%d", str(os.getpid()).encode()).replace(b"%s", FIRST.encode())
    path.write_bytes(content)
    (path.parent / "1.json").mkdir()
    os.mkfifo(path.parent / "2.json")
    (path.parent / "x.json").write_bytes(b"{}")
    assert await running_in(real_house, root) == {}


async def test_a_native_session_of_the_same_id_does_not_run(
    real_house: House, tmp_path: Path
) -> None:
    root = claude_root(tmp_path.resolve())
    register(root, SESSION, "busy")
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, SESSION, persist="immediate")
        await add_root(wire, root)
        assert await running(wire) == {}
