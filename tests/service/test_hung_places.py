"""A place that does not answer costs its own openings, and no other call."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Set
from contextlib import AsyncExitStack, closing
from functools import partial
from pathlib import Path
from threading import Event, current_thread, main_thread
from traceback import format_stack
from typing import Any

import anyio
import pytest

from sessiond.catalog.guarded import address
from sessiond.journal.disk.files import Files, FileStat
from sessiond.limits import PLACE_THREADS_MAX
from sessiond.service.files.guarded_files import Answer, _Visit
from sessiond.service.sources.agents.opencode import database
from sessiond.service.thread_pool import Outcome
from sessiond.testing.wire import Refusal, Wire
from tests.kit.agent_roots import claude_root, codex_root, gemini_root, opencode_root
from tests.kit.calls import call, create
from tests.kit.house import House
from tests.kit.patience import PATIENCE_SECONDS, eventually
from tests.kit.roots import add_root, pi_file, put
from tests.kit.sessions import HI, SESSION

OPENINGS = 60
ROOTS = {
    "claude-code": claude_root,
    "codex": codex_root,
    "gemini-cli": gemini_root,
    "opencode": opencode_root,
}


class HungFiles(Files):
    """A disk on which one folder does not answer while it hangs.

    Looks outside the profile are given up as soon as it hangs, and are waited for before, whatever time that takes.
    """

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, *, hangs: bool = True) -> None:
        super().__init__()
        self.folder = folder
        self.waiting = 0
        self.on_loop: list[str] = []
        """The calls in which the event loop waited for the folder."""
        self._answers = Event()
        self._read: set[int] = set()
        if not hangs:
            self.release()
        wait = Answer[Any].wait

        def wait_or_give_up(
            answer: Answer[Any], _seconds: float, give_up: partial[None]
        ) -> Outcome | None:
            is_there = Path(give_up.args[0]).is_relative_to(folder)
            if is_there:
                self._note_loop()
            while not (is_there and self.is_silent) and not answer.ended.acquire(timeout=0.01):
                pass
            return wait(answer, 0, give_up)

        patch.setattr(Answer, "wait", wait_or_give_up)
        give_up = _Visit.give_up

        def give_up_now(visit: _Visit, doing: Callable[[], None]) -> bool:
            with visit._changing:
                if visit._due is not None:
                    is_there = Path(visit.place).is_relative_to(folder)
                    visit._due = (
                        0.0 if is_there and self.is_silent else visit._due + PATIENCE_SECONDS
                    )
            return give_up(visit, doing)

        patch.setattr(_Visit, "left", lambda _: 0.01)
        patch.setattr(_Visit, "give_up", give_up_now)

    @property
    def is_silent(self) -> bool:
        """True if looks at the folder hang."""
        return not self._answers.is_set()

    def hang(self) -> None:
        """Let the folder answer no more."""
        self.waiting = 0
        self._answers.clear()

    def release(self) -> None:
        """Let the folder answer again."""
        self._answers.set()

    def _note_loop(self) -> None:
        if current_thread() is main_thread():
            self.on_loop.append("".join(format_stack(limit=12)))

    def _wait(self, path: Path | str) -> None:
        if Path(path).is_relative_to(self.folder):
            self.waiting += 1
            assert self._answers.wait(PATIENCE_SECONDS), "nobody released the folder"

    def stat(self, path: Path) -> FileStat:
        self._wait(path)
        return super().stat(path)

    def lstat(self, path: Path) -> FileStat:
        self._wait(path)
        return super().lstat(path)

    def exists(self, path: Path | str) -> bool:
        self._wait(path)
        return super().exists(path)

    def real(self, path: Path | str) -> str:
        self._wait(path)
        return super().real(path)

    def listdir(self, folder: Path) -> list[str]:
        self._wait(folder)
        return super().listdir(folder)

    def stats(self, folder: Path) -> dict[str, FileStat]:
        self._wait(folder)
        return super().stats(folder)

    def open_read(self, path: Path) -> int:
        self._wait(path)
        fd = super().open_read(path)
        if path.is_relative_to(self.folder):
            self._read.add(fd)
        return fd

    def open_update(self, path: Path) -> int:
        fd = super().open_update(path)
        if path.is_relative_to(self.folder):
            self._read.add(fd)
        return fd

    def pread(self, fd: int, count: int, offset: int) -> bytes:
        if fd in self._read:
            self._note_loop()
            self._wait(self.folder)
        return super().pread(fd, count, offset)

    def close(self, fd: int) -> None:
        self._read.discard(fd)
        super().close(fd)


class HungWrites(HungFiles):
    """A disk on which looks at one folder are answered, and no file can be made there until it is released."""

    is_silent = False

    def _wait(self, path: Path | str) -> None:
        """Return at once: looks are answered."""

    def create(self, path: Path) -> int:
        super()._wait(path)
        return super().create(path)


class HungLinks(HungFiles):
    """A disk on which one folder answers until the links on a way there are looked at."""

    @property
    def is_silent(self) -> bool:
        """True once a look hangs."""
        return self.waiting > 0 and super().is_silent

    def _wait(self, path: Path | str) -> None:
        """Return at once: other looks are answered."""

    def real(self, path: Path | str) -> str:
        super()._wait(path)
        return super().real(path)

    def lstat(self, path: Path) -> FileStat:
        if path.is_dir():
            super()._wait(path)
        return super().lstat(path)


class HungReads(HungFiles):
    """A disk on which looks at one folder are answered, and SQLite does not come to open a database there.

    SQLite opens a pipe that nobody writes to in the place of the database, and so waits in the system.
    """

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, *, hangs: bool = True) -> None:
        self._pipe, self._writer = folder.with_name("pipe"), -1
        os.mkfifo(self._pipe)
        super().__init__(folder, patch, hangs=hangs)

        def address_or_pipe(path: Path, options: str) -> str:
            if self._answers.is_set():
                return address(path, options)
            self.waiting += 1
            return address(self._pipe, options)

        patch.setattr(database, "address", address_or_pipe)

    @property
    def is_silent(self) -> bool:
        """True once SQLite waits."""
        return self.waiting > 0 and super().is_silent

    def release(self) -> None:
        super().release()
        if self._writer < 0:
            # The end for reading too, so that this one waits for no other.
            self._writer = os.open(self._pipe, os.O_RDWR)

    def hang(self) -> None:
        if self._writer >= 0:
            os.close(self._writer)
            self._writer = -1
        super().hang()

    def _wait(self, path: Path | str) -> None:
        """Return at once: looks are answered."""


HANGING = [
    *((agent, HungFiles) for agent in ROOTS),
    ("gemini-cli", HungLinks),
    ("opencode", HungReads),
]


async def refused(wire: Wire, request: Any) -> Refusal:
    """Return the refusal that a request is answered with."""
    with pytest.raises(Refusal) as told:
        await wire.answer(request)
    return told.value


@pytest.fixture
def dead(tmp_path: Path) -> Path:
    """Return a folder outside the profile."""
    folder = tmp_path.resolve() / "dead"
    folder.mkdir()
    return folder


async def test_a_folder_that_hangs_stops_no_other_call(
    home: Path, dead: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = HungFiles(dead, monkeypatch)
    async with (
        House(home, files).daemon() as daemon,
        daemon.connect() as wire,
        daemon.connect() as other,
    ):
        await create(wire, SESSION, persist="immediate")
        await call(wire, "append", message=HI)
        await wire.call("session/close", session_id=SESSION)
        try:
            requests = [
                await other.request("session/open", path=str(dead / f"{at}.jsonl"))
                for at in range(OPENINGS)
            ]
            for request in requests:
                refusal = await refused(other, request)
                assert refusal.data["errno"] == "ETIMEDOUT"
                assert refusal.data["retryable"]
                assert f"{dead} does not answer" in refusal.message
            assert files.waiting <= PLACE_THREADS_MAX
            await _everything_else(wire, tmp_path)
        finally:
            files.release()
        await _answers_again(other, str(dead / "again.jsonl"))


async def _answers_again(wire: Wire, path: str) -> None:
    """Wait until an opening is refused by what the folder says."""

    async def is_answered() -> bool:
        refusal = await refused(wire, await wire.request("session/open", path=path))
        return (
            bool(refusal.data["kind"] == "session_not_found") or refusal.data["errno"] == "ENOENT"
        )

    await eventually(is_answered)


async def test_files_that_clients_name_in_a_hung_folder_stop_no_other_call(
    home: Path, dead: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = HungWrites(dead, monkeypatch)
    async with House(home, files).daemon() as daemon, AsyncExitStack() as clients:
        wire, *others = [await clients.enter_async_context(daemon.connect()) for _ in range(5)]
        await create(wire, SESSION, persist="immediate")
        await call(wire, "append", message=HI)
        export = {"session_id": SESSION, "format": "native"}
        try:
            writes = [
                (other, await other.request("session/export", path=f"{dead}/{at}-{of}", **export))
                for at, other in enumerate(others)
                for of in range(OPENINGS // len(others))
            ]
            await eventually(lambda: files.waiting == PLACE_THREADS_MAX)
            await _everything_else(wire, tmp_path)
            assert files.waiting == PLACE_THREADS_MAX
        finally:
            files.release()
        for other, request in writes:
            await other.answer(request)
        assert len(list(dead.iterdir())) == OPENINGS


@pytest.mark.parametrize("moment", ["first", "known", "running"])
@pytest.mark.parametrize("place", HANGING, ids=lambda place: f"{place[0]}-{place[1].__name__}")
async def test_a_root_that_hangs_costs_its_own_rows(
    place: tuple[str, type[HungFiles]],
    moment: str,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent, kind = place
    root = ROOTS[agent](tmp_path.resolve())
    files = kind(root, monkeypatch, hangs=False)
    house = House(home, files)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, SESSION, persist="immediate")
        await call(wire, "append", message=HI)
        await add_root(wire, root)
        everything = await _listed(wire)
        assert len(everything) > 1
    if moment == "first":
        for path in house.layout.catalog.parent.glob("catalog.sqlite*"):
            path.unlink()
    known = {SESSION} if moment == "first" else everything
    if moment != "running":
        files.hang()
    async with house.daemon(scanned=False) as daemon, daemon.connect() as wire:
        if moment == "running":
            assert await _listed(wire) == everything
            files.hang()
            if kind is HungReads:
                _write_to(root / "opencode.db")
        try:
            with anyio.fail_after(PATIENCE_SECONDS):
                await _everything_else(wire, tmp_path, known)
            if moment != "running" or kind is HungReads:
                told = (await wire.call("session/list"))["unreadable"]
                assert any(
                    f"{root} does not answer" in one["reason"]
                    for one in told
                    if Path(one["path"]) == root or kind is HungReads
                )
            assert kind is not HungReads or 0 < files.waiting <= PLACE_THREADS_MAX
        finally:
            files.release()

        async def is_whole() -> bool:
            listed: dict[str, Any] = await wire.call("session/list")
            found = {one["id"] for one in listed["sessions"]}
            return found == {*everything, "another-one"} and not listed["unreadable"]

        await eventually(is_whole)


READS: dict[str, dict[str, Any]] = {
    "session/entries": {},
    "session/path": {},
    "session/tree": {},
    "session/turns": {},
    "session/labels": {},
    "session/build_context": {},
    "session/stats": {},
    "session/get": {},
    "session/entry": {"entry_id": "10000000"},
    "subscribe": {"after": {"seq": 0}},
}


@pytest.mark.parametrize("read", READS)
async def test_a_read_outside_the_profile_is_no_wait_of_the_event_loop(
    read: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path.resolve() / "pi"
    put(root, "one", pi_file("session-p1", "a", "b"))
    files = HungFiles(root, monkeypatch, hangs=False)
    async with House(home, files).daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        await wire.call("session/open", session_id="session-p1")
        await wire.call("session/label", session_id="session-p1", entry_id="10000000", label="l")
        files.on_loop.clear()
        await wire.call(read, session_id="session-p1", **READS[read])
        await wire.call("server/ping")
        assert files.on_loop == []


async def test_a_root_that_hangs_is_removed_by_its_path(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = claude_root(tmp_path.resolve())
    files = HungFiles(root, monkeypatch, hangs=False)
    async with House(home, files).daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        assert await _listed(wire)
        files.hang()
        try:
            left = await wire.call("catalog/roots", action="remove", path=str(root))
            assert not any(one["added"] for one in left["roots"])
            assert await _listed(wire) == set()
            request = await wire.request("catalog/roots", action="add", path=f"{root}/other")
            assert (await refused(wire, request)).data["errno"] == "ETIMEDOUT"
        finally:
            files.release()


def _write_to(path: Path) -> None:
    """Change a database as its program does."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE later (id)")


async def _listed(wire: Wire) -> set[str]:
    return {one["id"] for one in (await wire.call("session/list"))["sessions"]}


async def _everything_else(
    wire: Wire, folder: Path, known: Set[str] = frozenset({SESSION})
) -> None:
    """Make the calls that go on beside a hung place, in which `known` sessions are listed."""
    assert await _listed(wire) == known
    found: dict[str, Any] = await wire.call("session/search", query="hi")
    assert SESSION in {one["session_id"] for one in found["hits"]}
    assert (await wire.call("session/build_context", session_id=SESSION))["messages"] == [HI]
    await wire.call("session/create", session_id="another-one", cwd="/p", persist="immediate")
    await wire.call("state/set", namespace="n", key="k", value=1)
    export = folder / "copy.jsonl"
    await wire.call("session/export", session_id=SESSION, format="native", path=str(export))
    assert export.exists()
