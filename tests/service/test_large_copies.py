"""Copies, exports and imports hold a part of a session that does not grow with the session."""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import pytest

from sessiond.journal.disk.files import Files
from sessiond.limits import REPLAY_CHUNK_BYTES, SCAN_SECONDS
from sessiond.testing.wire import Wire
from tests.kit.agents import claude_line, codex_line, write_lines
from tests.kit.calls import create, say
from tests.kit.house import House
from tests.kit.patience import PATIENCE_SECONDS
from tests.kit.roots import add_root

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="session"),
]

MIB: Final = 1 << 20
KIB: Final = 1 << 10
SAID: Final = "words " * (64 * KIB // 6)
TURNS: Final = 200
SIZE: Final = 24 * MIB
# What a copy may hold. The session has three times as much, and twenty times as many lines as a chunk.
HELD: Final = 8 * MIB
CLAUDE: Final = "5e55a1d0-0000-4000-8000-0000000000aa"
CODEX: Final = "019f8001-0000-7000-8000-000000000001"


def claude(folder: Path) -> str:
    lines = [
        claude_line(n, n - 1 or None, SAID, "user" if n % 2 else "assistant")
        for n in range(1, 2 * TURNS + 1)
    ]
    write_lines(folder / "-p" / f"{CLAUDE}.jsonl", lines)
    return CLAUDE


def codex(folder: Path) -> str:
    """Write a rollout whose compactions say again what they keep."""
    meta = codex_line("session_meta", id=CODEX, timestamp="2026-01-15T10:00:00.000Z", cwd="/p")
    kept = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": SAID}]}]
    lines = [meta]
    for n in range(TURNS):
        answer = [{"type": "output_text", "text": SAID}]
        lines.append(codex_line("response_item", n % 60, **kept[0]))
        lines.append(
            codex_line("response_item", n % 60, type="message", role="assistant", content=answer)
        )
        if n % 20 == 0:
            lines.append(codex_line("compacted", n % 60, message="short", replacement_history=kept))
    path = folder / "2026" / "01" / "15" / f"rollout-2026-01-15T10-00-00-{CODEX}.jsonl"
    write_lines(path, lines)
    return CODEX


AGENTS: Final = {"claude-code": claude, "codex": codex}
Work = Callable[[Wire, str, Path], Awaitable[Any]]


async def fork(wire: Wire, session_id: str, folder: Path) -> Any:
    del folder
    return (await wire.call("session/fork", session_id=session_id))["session"]


async def fork_of_all_for_pi(wire: Wire, session_id: str, folder: Path) -> Any:
    del folder
    call = wire.call("session/fork", session_id=session_id, entries="all", dialect="pi")
    return (await call)["session"]


async def rebase(wire: Wire, session_id: str, folder: Path) -> Any:
    del folder
    call = wire.call("session/rebase", session_id=session_id, indices=list(range(1, TURNS)))
    return (await call)["session"]


def export(form: str) -> Work:
    async def work(wire: Wire, session_id: str, folder: Path) -> Any:
        path = folder / f"a.{form}"
        await wire.call("session/export", session_id=session_id, format=form, path=str(path))
        assert path.stat().st_size > SIZE / 4

    return work


WORKS: Final[dict[str, Work]] = {
    "fork": fork,
    "fork for pi": fork_of_all_for_pi,
    "rebase": rebase,
    "native export": export("native"),
    "export for pi": export("pi"),
}


@contextmanager
def peak_below(bytes_max: int, kept_max: int) -> Iterator[None]:
    """Require that the block holds less than a bound, and leaves less than another."""
    tracemalloc.start()
    try:
        yield
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < bytes_max, f"{peak / MIB:.1f} MiB"
    assert kept < kept_max, f"{kept / MIB:.1f} MiB stay"


@pytest.mark.parametrize("work", WORKS)
@pytest.mark.parametrize("agent", AGENTS)
async def test_a_copy_of_another_agents_session_holds_a_small_part_of_it(
    real_house: House, tmp_path: Path, agent: str, work: str
) -> None:
    session_id = AGENTS[agent](tmp_path / "root")
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, tmp_path / "root", agent)
        await wire.call("session/get", session_id=session_id)
        with peak_below(HELD, 2 * MIB):
            await WORKS[work](wire, session_id, tmp_path)


@pytest.mark.parametrize("form", ["agent", "native", "pi", "operator"])
@pytest.mark.parametrize("more", [{}, {"if_exists": "skip"}], ids=["copy", "skip"])
async def test_an_import_holds_a_small_part_of_its_file(
    real_house: House, tmp_path: Path, form: str, more: dict[str, Any]
) -> None:
    session_id = claude(tmp_path / "root")
    (path,) = (tmp_path / "root").rglob("*.jsonl")
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        if form != "agent":
            await add_root(wire, tmp_path / "root", "claude-code")
            path = tmp_path / f"a.{form}"
            await wire.call("session/export", session_id=session_id, format=form, path=str(path))
        with peak_below(HELD, 2 * MIB):
            made = await wire.call("session/import", path=str(path), **more)
        assert made["report"]["entries"] >= 2 * TURNS
        if more:
            # The next import compares the lines of both.
            with peak_below(HELD, MIB):
                again = await wire.call("session/import", path=str(path), **more)
            assert not again["imported"]
            assert again["same_as"] == (made["same_as"] or [made["session"]["id"]])


class HeldCopy(Files):
    """The disk of this machine, which holds the first reader of a new file of the profile until told."""

    def __init__(self) -> None:
        self.folder = Path("/nowhere")
        self.openings = 0
        self.come = threading.Event()
        self.go_on = threading.Event()

    def open_read(self, path: Path) -> int:
        self._hold(path)
        return super().open_read(path)

    def open_update(self, path: Path) -> int:
        self._hold(path)
        return super().open_update(path)

    def _hold(self, path: Path) -> None:
        if path.parent == self.folder:
            self.openings += 1
            if not self.come.is_set():
                self.come.set()
                assert self.go_on.wait(PATIENCE_SECONDS)


async def test_a_list_does_not_read_the_copy_that_is_being_made(home: Path, tmp_path: Path) -> None:
    files = HeldCopy()
    house = House(home, files)
    session_id = claude(tmp_path / "root")
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await add_root(wire, tmp_path / "root", "claude-code")
        files.folder = house.layout.sessions
        async with anyio.create_task_group() as tasks:
            copies: list[Any] = []

            async def copy() -> None:
                copies.append(await fork(wire, session_id, tmp_path))

            tasks.start_soon(copy)
            assert await anyio.to_thread.run_sync(files.come.wait, PATIENCE_SECONDS)
            house.seconds += 2 * SCAN_SECONDS
            listed = await other.call("session/list")
            files.go_on.set()
        assert [one["id"] for one in listed["sessions"]] == [session_id]
        assert files.openings == 1
        listed = await other.call("session/list")
        assert {one["id"] for one in listed["sessions"]} == {session_id, copies[0]["id"]}
        assert files.openings == 1


class Told(Files):
    """The disk of this machine, which notes the sizes of reads and writes, and their threads."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int]] = []

    def _note(self, size: int) -> int:
        self.steps.append((threading.get_ident(), size))
        return size

    def pread(self, fd: int, count: int, offset: int) -> bytes:
        data = super().pread(fd, count, offset)
        self._note(len(data))
        return data

    def pwrite(self, fd: int, data: bytes | memoryview, offset: int) -> int:
        return self._note(super().pwrite(fd, data, offset))

    def write(self, fd: int, data: bytes | memoryview) -> int:
        return self._note(super().write(fd, data))


@pytest.mark.parametrize("work", [*WORKS, "import"])
async def test_no_step_of_a_copy_is_long_and_none_is_on_the_loop(
    home: Path, tmp_path: Path, work: str
) -> None:
    files = Told()
    session_id = claude(tmp_path / "root")
    (path,) = (tmp_path / "root").rglob("*.jsonl")
    async with House(home, files).daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, tmp_path / "root", "claude-code")
        await wire.call("session/get", session_id=session_id)
        files.steps.clear()
        if work == "import":
            await wire.call("session/import", path=str(path))
        else:
            await WORKS[work](wire, session_id, tmp_path)
        loop = threading.get_ident()
        away = [size for thread, size in files.steps if thread != loop]
        assert sum(away) > SIZE / 2
        # A list of lines is longer than a chunk by one line at most.
        assert max(away) <= REPLAY_CHUNK_BYTES + 2 * len(SAID)
        assert sum(size for thread, size in files.steps if thread == loop) < 64 * KIB
        # An append elsewhere is on the loop, and sees none of this.
        await create(wire, "session-b")
        await say(wire, "hi", session_id="session-b")
