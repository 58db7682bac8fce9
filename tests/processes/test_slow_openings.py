"""A command that waits for the opening of a large file does not give up while the daemon reads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.agent_roots import CLAUDE, claude_line
from tests.kit.patience import PATIENCE_SECONDS
from tests.processes.harness.daemon import Daemon

pytestmark = [pytest.mark.slow, pytest.mark.search]

LINES = 50_000
# The client's clock jumps when it is read behind a report: two of them outlast the command's patience.
PROGRAM = f"""
import atexit, sys, time
from sessiond_client import aio, blocking
from sessiond_client.thread_waiting import ThreadWaiter
from sessiond.cli import main
from sessiond.cli.connect.conversation import Steps
passed, is_told, report = 0.0, False, Steps.report
def jumping():
    global passed, is_told
    passed, is_told = passed + is_told * {0.75 * PATIENCE_SECONDS}, False
    return time.monotonic() + passed
def told(steps, *figures):
    global is_told
    is_told = True
    report(steps, *figures)
ThreadWaiter.clock, Steps.report = staticmethod(jumping), told
aio.TIMEOUT_DEFAULT = blocking.TIMEOUT_DEFAULT = {PATIENCE_SECONDS}
atexit.register(lambda: print(passed, file=sys.stderr))
sys.exit(main())
"""


@pytest.mark.parametrize("command", ["show", "tree"])
def test_a_command_waits_as_long_as_the_daemon_reads(
    daemon: Daemon, tmp_path: Path, command: str
) -> None:
    path = tmp_path / "projects" / "-p" / f"{CLAUDE.format(7)}.jsonl"
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        above = None
        for number in range(LINES):
            uuid = f"c1a0de00-0000-4000-8000-{number:012}"
            file.write(claude_line(uuid, above, f"line {number}"))
            above = uuid
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, command, str(path), "--socket", str(daemon.socket_path)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert f"line {LINES - 1}" in done.stdout
    assert float(done.stderr.splitlines()[-1]) > PATIENCE_SECONDS
