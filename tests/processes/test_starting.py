"""A start that takes a while ends like any other daemon when it is told to."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.kit.patience import soon
from tests.kit.sessions import native_file
from tests.processes import held_daemon
from tests.processes.harness.daemon import SESSIOND, Daemon, running

pytestmark = pytest.mark.slow


HOLDER = """
import socket, sys
held = [socket.socket(socket.AF_UNIX) for _ in range(40)]
for one in held:
    one.connect(sys.argv[1])
print(flush=True)
sys.stdin.read()
"""
"""Program that opens many connections, and keeps them until its input ends."""


def test_a_daemon_with_too_few_descriptors_says_how_many_it_needs_and_works_with_so_many(
    socket_path: Path, home: Path
) -> None:
    def limited(limit: int) -> Daemon:
        shell = f'ulimit -n {limit}; exec "$0" "$@"'
        return Daemon(socket_path, home / "data", program=["sh", "-c", shell, SESSIOND])

    told = limited(16).start_in_vain()
    found = re.fullmatch(r"ulimit -n is 16, and a daemon needs (\d+): .*", told)
    assert found is not None, told
    needed = int(found[1])
    assert f"a daemon needs {needed}" in limited(needed - 1).start_in_vain()
    with running(limited(needed)) as daemon, daemon.connect() as link, ExitStack() as others:
        assert link.ask("server/info")["limits"]["open_files"] == needed
        # One process may have half of the connections that there may be.
        for _ in range(2):
            words = [sys.executable, "-c", HOLDER, str(socket_path)]
            one = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            others.enter_context(one)
            assert one.stdout is not None
            one.stdout.readline()
        assert link.ask("server/stats")["holdings"]["connections_refused"] > 0
        for name in ("session-one", "session-two", "session-three"):
            link.create("one", session_id=name)
            assert link.say(name, "two")["seq"] == 2
        assert len(link.ask("session/list")["sessions"]) == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_the_start_ends_it_in_order(
    socket_path: Path, home: Path, number: signal.Signals
) -> None:
    folder = home / "held"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "hold")
    daemon = Daemon(
        socket_path, home / "data", program=[sys.executable, held_daemon.__file__, str(folder)]
    )
    pending = daemon.profile / "pending"
    pending.mkdir(parents=True)
    for draft in ("draft-one", "draft-two", "draft-three"):
        (pending / f"{draft}.jsonl").write_bytes(native_file([], draft))
    daemon.start()
    try:
        soon((folder / "reached").exists, daemon.said)
        assert daemon.signal_and_look(number) is None
        soon(lambda: f'"signal":"{number.name}"' in daemon.said(), daemon.said)
        with (folder / "hold").open("wb"):
            (folder / "hold").unlink()
        assert daemon.end() == 0, daemon.said()
    finally:
        daemon.discard()
    assert '"bug"' not in daemon.said()
    assert "catalog" not in daemon.said()
    assert "Traceback" not in daemon.said()
    # What it was not done with is the next start's.
    assert len((folder / "opened").read_text("utf-8").splitlines()) == 1
    assert len(list(pending.glob("*.jsonl"))) == 3
