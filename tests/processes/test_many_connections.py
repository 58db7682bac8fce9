"""Connections take descriptors only as far as files, the catalog and searches keep theirs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.processes.harness.daemon import SESSIOND, Daemon, running

pytestmark = pytest.mark.slow

DESCRIPTORS = 256
# Connects as often as it may, keeps whatever is not closed at once, and says when it is done.
FLOOD = """
import resource, socket, sys
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
kept = []
for _ in range(int(sys.argv[2])):
    one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    one.connect(sys.argv[1])
    kept.append(one)
print("done", flush=True)
sys.stdin.read()
"""


@contextmanager
def flooded(daemon: Daemon, count: int) -> Iterator[None]:
    """Another process has this many connections for as long as the block lasts."""
    with subprocess.Popen(
        [sys.executable, "-c", FLOOD, str(daemon.socket_path), str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"done\n"
            yield
        finally:
            process.kill()


@pytest.mark.parametrize("floods", [1, 3])
def test_processes_with_too_many_connections_leave_descriptors_for_files(
    socket_path: Path, home: Path, floods: int
) -> None:
    limit = ("prlimit", f"--nofile={DESCRIPTORS}:{DESCRIPTORS}", SESSIOND)
    with (
        running(Daemon(socket_path, home / "data", program=limit)) as daemon,
        daemon.connect() as link,
        ExitStack() as stack,
    ):
        link.ask("session/create", cwd="/p", session_id="session-a", persist="immediate")
        for _ in range(floods):
            stack.enter_context(flooded(daemon, 3 * DESCRIPTORS))
        limits = link.ask("server/info")["limits"]
        assert limits["max_connections"] == DESCRIPTORS // 2
        assert limits["max_connections_per_process"] == DESCRIPTORS // 4
        for number in range(20):
            session_id = f"session-{number}"
            link.ask("session/create", cwd="/p", session_id=session_id, persist="immediate")
            assert link.say(session_id, "word")["durability"] == "disk"
        assert len(link.ask("session/list")["sessions"]) == 21
        assert len(link.ask("session/search", query="word")["hits"]) == 20
        assert link.ask("session/verify", session_id="session-3")["ok"]
        if floods == 1:
            with daemon.connect() as other:
                assert other.ask("session/get", session_id="session-3")["session"]["seq"] == 1
