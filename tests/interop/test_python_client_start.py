"""The Python clients start the daemon that they need, and again when it ended under them."""

from __future__ import annotations

import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import anyio
import pytest
from anyio import to_thread

from sessiond_client import ConnectionLost, EntryEvent, connect, connect_blocking
from sessiond_client.results import Appended
from tests.kit.patience import PATIENCE_SECONDS
from tests.processes.harness.daemon import SESSIOND

pytestmark = [pytest.mark.slow, pytest.mark.interop]

REPOSITORY = Path(__file__).resolve().parents[2]
MESSAGE = {"role": "assistant", "content": [{"type": "text", "text": "yes", "n": 1.5}]}


def sessiond(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SESSIOND, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def status() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(sessiond("status", "--json").stdout)
    return found


@pytest.fixture(autouse=True)
def own_place(home: Path) -> Iterator[None]:
    """Give the test a home and a socket of its own; stop its daemon at the end."""
    yield
    done = sessiond("stop", "--json")
    assert done.returncode == 0, done.stdout


@pytest.mark.conformance
async def test_a_client_without_a_path_starts_the_daemon_and_the_next_one_joins_it() -> None:
    async with connect() as client:
        info = await client.info()
        session_id = (await client.create("/project")).session.id
        await client.append(session_id, message=MESSAGE)

    def in_thread() -> None:
        with connect_blocking() as client:
            assert client.info()["instance_id"] == info["instance_id"]
            assert [one.id for one in client.list().sessions] == [session_id]

    await to_thread.run_sync(in_thread)


@pytest.mark.conformance
def test_the_blocking_client_starts_the_daemon_of_a_profile_and_a_home(tmp_path: Path) -> None:
    told = ("--profile", "other", "--home", str(tmp_path / "data"))
    with connect_blocking(profile="other", home=tmp_path / "data") as client:
        info = client.info()
        assert info["profile"] == "other"
        assert Path(info["data_folder"]).is_relative_to(tmp_path / "data")
    assert sessiond("stop", "--json", *told).returncode == 0


def test_who_only_joins_starts_nothing(socket_path: Path) -> None:
    for path, options in [(None, {"start": False}), (socket_path, {})]:
        with pytest.raises(ConnectionLost, match="cannot connect"):
            connect_blocking(path, **options).__enter__()  # type: ignore[arg-type]
    assert status()["running"] is False
    assert not socket_path.exists()


def test_a_named_socket_is_started_where_that_is_asked_for(socket_path: Path) -> None:
    with connect_blocking(socket_path, start=True) as client:
        assert client.ping()["ok"]
        assert socket_path.is_socket()
    assert sessiond("stop", "--json", "--socket", str(socket_path)).returncode == 0


def test_the_programs_of_the_readme_run() -> None:
    text = (REPOSITORY / "clients" / "python" / "README.md").read_text("utf-8")
    front = (REPOSITORY / "README.md").read_text("utf-8")
    programs = re.findall(r"^```python\n(.*?)^```", text + front, re.DOTALL | re.MULTILINE)
    # The third one needs a session and a model: see test_python_client_offer.
    assert ["await model(" in program for program in programs] == [False, False, True, False]
    said = [
        subprocess.run(
            [sys.executable, "-c", program],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=True,
        ).stdout
        for program in (*programs[:2], programs[3])
    ]
    # The second one lists the session of the first.
    assert said[0] == "1 message\n"
    assert said[1].endswith(" 1\n")
    assert said[1].count("\n") == 1
    assert "'content': 'hi'" in said[2]


async def test_many_clients_at_once_start_one_daemon() -> None:
    seen: list[tuple[int, str]] = []

    async def in_task() -> None:
        async with connect() as client:
            info = await client.info()
            seen.append((info["pid"], info["instance_id"]))

    def in_thread(_: int) -> None:
        with connect_blocking() as client:
            info = client.info()
            seen.append((info["pid"], info["instance_id"]))

    def in_threads() -> None:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(in_thread, range(4)))

    async with anyio.create_task_group() as group:
        group.start_soon(to_thread.run_sync, in_threads)
        for _ in range(4):
            group.start_soon(in_task)
    assert len(seen) == 8
    assert len(set(seen)) == 1


Stored = list[tuple[int, str]]
THE_END = {"type": "message", "id": "the-end", "message": MESSAGE}


class Tally:
    """The acknowledged entries, and a way to wait for a number of new ones."""

    def __init__(self) -> None:
        self.stored: Stored = []
        self.is_enough = False
        self._awaited: dict[int, anyio.Event] = {}

    def add(self, appended: Appended) -> None:
        entry = appended.entries[0]
        self.stored.append((entry.seq, entry.id))
        if event := self._awaited.get(len(self.stored)):
            event.set()

    async def grow(self, count: int) -> None:
        event = self._awaited[len(self.stored) + count] = anyio.Event()
        await event.wait()


async def append_in_task(session_id: str, tally: Tally) -> None:
    async with connect() as client:
        while not tally.is_enough:
            tally.add(await client.append(session_id, message=MESSAGE))


async def append_in_threads(session_id: str, tally: Tally) -> None:
    with connect_blocking() as client:
        while not tally.is_enough:
            append = partial(client.append, session_id, message=MESSAGE)
            tally.add(await to_thread.run_sync(append))


async def watch(session_id: str, watched: Stored) -> None:
    async with connect() as client, client.subscribe(session_id, after=0) as events:
        async for event in events:
            if isinstance(event, EntryEvent):
                watched.append((event.seq, event.name.id))
                if event.name.id == "the-end":
                    return


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def drain(pid: int) -> None:
    os.kill(pid, signal.SIGTERM)


def restart(pid: int) -> None:
    assert sessiond("restart", "--json").returncode == 0


@pytest.mark.parametrize("end", [kill, drain, restart])
async def test_appending_clients_carry_on_when_the_daemon_ends(end: Callable[[int], None]) -> None:
    """The clients alone start the daemon again; no entry is lost or stored twice."""
    tally = Tally()
    watched: Stored = []
    pids: list[int] = []
    async with connect() as client:
        session_id = (await client.create("/project", persist="immediate")).session.id
        async with anyio.create_task_group() as watching:
            watching.start_soon(watch, session_id, watched)
            async with anyio.create_task_group() as appending:
                for _ in range(2):
                    appending.start_soon(append_in_task, session_id, tally)
                    appending.start_soon(append_in_threads, session_id, tally)
                for _ in range(2):
                    await tally.grow(20)
                    pids.append((await client.info())["pid"])
                    await to_thread.run_sync(end, pids[-1])
                await tally.grow(20)
                tally.is_enough = True
            tally.add(await client.append(session_id, entry=THE_END))
        page = await client.entries(session_id, limit=10_000)
        pids.append((await client.info())["pid"])
    assert len(set(pids)) == 3
    assert [row.seq for row in page.entries] == list(range(1, len(tally.stored) + 1))
    assert sorted(tally.stored) == watched == [(row.seq, row.entry["id"]) for row in page.entries]


@pytest.mark.conformance
def test_a_start_that_fails_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with monkeypatch.context() as patch:
        script = "import sys; sys.exit('the disk is made of cheese')"
        patch.setenv("SESSIOND_COMMAND", shlex.join([sys.executable, "-c", script]))
        with pytest.raises(ConnectionLost, match=r"status 1.*made of cheese") as lost:
            connect_blocking().__enter__()
        assert not lost.value.outcome_unknown
        patch.setenv("SESSIOND_COMMAND", str(tmp_path / "no-such-program"))
        with pytest.raises(ConnectionLost, match="no-such-program"):
            connect_blocking().__enter__()


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the client's command wait until the test has opened and closed this pipe."""
    pipe = tmp_path / "gate"
    os.mkfifo(pipe)
    script = f'read line <{shlex.quote(str(pipe))}; exec {shlex.quote(SESSIOND)} "$@"'
    monkeypatch.setenv("SESSIOND_COMMAND", shlex.join(["sh", "-c", script, "sessiond"]))
    return pipe


async def test_other_tasks_run_while_the_daemon_is_started(gate: Path) -> None:
    async def open_gate() -> None:
        # Opens only if somebody reads: the command runs by then.
        async with await anyio.open_file(gate, "w") as pipe:
            await pipe.write("\n")

    async with anyio.create_task_group() as group:
        group.start_soon(open_gate)
        async with connect() as client:
            assert (await client.ping())["ok"]


def is_deserted(pipe: TextIO) -> bool:
    """Wait until no process has the other end of a pipe open; False after 30 seconds."""
    poll = select.poll()
    poll.register(pipe, 0)
    return [event for _, event in poll.poll(30_000)] == [select.POLLERR]


async def test_who_gives_up_leaves_no_start_behind(gate: Path) -> None:
    async with anyio.create_task_group() as group:

        async def enter() -> None:
            await connect().__aenter__()

        group.start_soon(enter)
        pipe = await to_thread.run_sync(gate.open, "w")  # it runs, and waits at the gate
        group.cancel_scope.cancel()
    with pipe:
        assert await to_thread.run_sync(is_deserted, pipe)
    assert (await to_thread.run_sync(status))["running"] is False
