"""Clients that read nothing, or send half frames: their cost is bounded, and other clients go on.

Memory is the daemon's resident set. The bounds allow for twice the kept bytes, since freed bytes do
not all go back to the system. They are far below the memory of a daemon without limits.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NoReturn, Protocol

import pytest

from sessiond_client import Timeout, connect_blocking
from tests.kit.link import Link, request
from tests.kit.patience import PATIENCE_SECONDS, soon
from tests.kit.sessions import SESSION
from tests.processes.harness.daemon import SESSIOND, Daemon, running

pytestmark = pytest.mark.slow

MIB = 1 << 20
FRAME_BYTES = 30 * MIB


class Absent(Protocol):
    """Says that something is missing here."""

    def __call__(self, reason: str) -> NoReturn: ...


@pytest.fixture
def small(
    socket_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, absent: Absent
) -> Iterator[Daemon]:
    """Run a daemon that keeps 64 MiB for all its connections."""
    if not Path("/proc/self/status").exists():
        absent("no /proc to read a process's memory from")
    monkeypatch.setenv("SESSIOND_LIMITS_BUFFERED_BYTES", str(64 * MIB))
    with running(Daemon(socket_path, home / "data")) as daemon:
        yield daemon


@contextmanager
def grows_less(daemon: Daemon, link: Link, mib: int) -> Iterator[None]:
    """Require that the daemon's memory grows by less than `mib` and a healthy client is served."""
    before = daemon.memory()
    yield
    assert link.say(SESSION, "all is well")["durability"] == "disk"
    assert daemon.memory() - before < mib * MIB


@pytest.fixture
def link(small: Daemon) -> Iterator[Link]:
    """Connect a client that has made a session."""
    with small.connect() as link:
        link.create()
        yield link


def test_halves_of_large_frames_on_many_connections_have_one_bound(
    small: Daemon, link: Link
) -> None:
    half = request(1, "append", session_id=SESSION, message={"role": "user"})[:-3]
    half += b',"content":"' + b"x" * FRAME_BYTES
    with grows_less(small, link, 128), ExitStack() as stack:
        # 360 MiB without an end.
        senders = [stack.enter_context(small.connect()) for _ in range(12)]
        for sender in senders:
            sender.send(half)
        refused = 0
        for sender in senders:
            sender.send(b"\n" + request("next", "server/ping"))
            message = sender.message()
            if message["id"] is None and message["error"]["data"]["kind"] == "overloaded":
                refused += 1
            # Whether it was taken or not, and it is no JSON: the next one is served.
            sender.answer("next")
        assert refused >= 9
        kept = link.ask("server/stats")["holdings"]
        assert (kept["frames_refused"], kept["large_frames"]) == (refused, 0)


def test_many_large_questions_whose_answers_nobody_reads(small: Daemon, link: Link) -> None:
    for _ in range(4):
        link.say(SESSION, "x" * 2 * MIB)
    # 64 MiB of answers, each part of them copied into one piece, and four in the making.
    with grows_less(small, link, 448):
        with small.connect() as stuck:
            # 8 MiB each, 950 MiB in all; behind an append, where they wait for the writer together.
            stuck.send(
                request(0, "append", session_id=SESSION, message={"role": "user", "content": "?"})
                + b"".join(request(n, "session/entries", session_id=SESSION) for n in range(1, 120))
            )
            # Other questions are answered meanwhile.
            for _ in range(100):
                assert link.ask("session/get", session_id=SESSION)["session"]["seq"] >= 4
            answers: dict[int, str] = {}
            while len(answers) < 120:
                line = stuck.line()
                assert line is not None
                head = line[:200]
                number = int(head.partition(b'"id":')[2].partition(b",")[0])
                assert number not in answers
                if b'"error"' in head:
                    answers[number] = json.loads(line)["error"]["data"]["kind"]
                else:
                    answers[number] = "given"
        assert set(answers.values()) <= {"given", "overloaded"}
        assert answers[0] == "given"


def test_a_client_that_replays_many_sessions_and_subscribes_again_and_again(
    small: Daemon, link: Link
) -> None:
    names = [f"session-{n:03d}" for n in range(120)]
    for name in names:
        link.ask("session/create", cwd="/p", session_id=name, persist="immediate")
        link.say(name, "x" * MIB)
    with grows_less(small, link, 64), small.connect() as stuck:
        for _ in range(5):
            for name in names:
                stuck.send(request(1, "subscribe", session_id=name, after={"seq": 0}))
        watching = link.ask("server/stats")["sessions"]
        assert sum(one["hub"]["replaying"] for one in watching.values()) > 60
        # It reads at last: each session's entry comes once after the last subscription.
        stuck.send(request("end", "server/ping"))
        synced: set[str] = set()
        while len(synced) < len(names):
            line = stuck.line()
            assert line is not None
            if b'"method":"session/synced"' in line[:60]:
                synced.add(json.loads(line)["params"]["session_id"])


def test_one_process_leaves_connections_to_others(
    socket_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SESSIOND_LIMITS_CONNECTIONS_PER_PROCESS", "20")
    with running(Daemon(socket_path, home / "data")) as daemon, ExitStack() as stack:
        links = [stack.enter_context(daemon.connect()) for _ in range(20)]
        for link in links:
            link.ask("server/ping")
        for _ in range(30):
            with daemon.connect() as late:
                refusal = late.message()
                assert (refusal["id"], refusal["error"]["data"]["closing"]) == (None, True)
                assert late.line() is None
        # A command is another process, and it has a place.
        status = [SESSIOND, "status", "--json", "--socket", str(socket_path)]
        done = subprocess.run(status, env=daemon.environment, capture_output=True, check=True)
        assert json.loads(done.stdout)
        assert links[0].ask("server/stats")["holdings"]["connections_refused"] == 30


def test_the_python_client_waits_for_a_place_and_says_why_there_was_none(
    socket_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SESSIOND_LIMITS_CONNECTIONS", "1")
    with (
        running(Daemon(socket_path, home / "data")) as daemon,
        daemon.connect() as link,
        connect_blocking(socket_path) as client,
    ):
        link.ask("server/ping")
        with pytest.raises(
            Timeout, match="the daemon has as many open connections as it may have"
        ) as timeout:
            client.call("session/create", cwd="/p", timeout=1.0)
        assert not timeout.value.outcome_unknown
        refused = link.ask("server/stats")["holdings"]["connections_refused"]

        def hang_up() -> None:
            soon(lambda: link.ask("server/stats")["holdings"]["connections_refused"] > refused)
            link.close()

        with ThreadPoolExecutor(1) as pool:
            hangs_up = pool.submit(hang_up)
            # Of all that was sent before, nothing was done.
            client.call("session/create", cwd="/p", persist="immediate", timeout=PATIENCE_SECONDS)
            assert len(client.list().sessions) == 1
            hangs_up.result()
