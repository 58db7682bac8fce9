"""Connections take descriptors only as far as files, the catalog and searches keep theirs."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.processes.harness.child import Start
from tests.processes.harness.daemon import SESSIOND, Daemon, running

pytestmark = [pytest.mark.slow, pytest.mark.search]

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


@pytest.mark.parametrize("floods", [1, 3])
def test_processes_with_too_many_connections_leave_descriptors_for_files(
    socket_path: Path, home: Path, started: Start, floods: int
) -> None:
    limit = ("prlimit", f"--nofile={DESCRIPTORS}:{DESCRIPTORS}", SESSIOND)
    with (
        running(Daemon(socket_path, home / "data", program=limit)) as daemon,
        daemon.connect() as link,
        ExitStack() as stack,
    ):
        link.create(session_id="session-a")
        for _ in range(floods):
            flood = started(sys.executable, "-c", FLOOD, daemon.socket_path, 3 * DESCRIPTORS)
            stack.callback(flood.end)
            assert flood.word() == "done"
        limits = link.ask("server/info")["limits"]
        assert limits["max_connections"] == DESCRIPTORS // 2
        assert limits["max_connections_per_process"] == DESCRIPTORS // 4
        for number in range(20):
            session_id = f"session-{number}"
            link.create(session_id=session_id)
            assert link.say(session_id, "word")["durability"] == "disk"
        assert len(link.ask("session/list")["sessions"]) == 21
        assert len(link.ask("session/search", query="word")["hits"]) == 20
        assert link.ask("session/verify", session_id="session-3")["ok"]
        if floods == 1:
            with daemon.connect() as other:
                assert other.ask("session/get", session_id="session-3")["session"]["seq"] == 1
