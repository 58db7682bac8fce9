"""A command that waits for the opening of a large file does not give up while the daemon reads."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.kit.agent_roots import CLAUDE, claude_line
from tests.processes.harness.daemon import Daemon

pytestmark = pytest.mark.slow

# Less than the opening takes, and more than lies between two reports.
PATIENCE_SECONDS = 1.0
PROGRAM = f"""
import sys
from sessiond_client import aio, blocking
aio.TIMEOUT_DEFAULT = blocking.TIMEOUT_DEFAULT = {PATIENCE_SECONDS}
from sessiond.cli import main
sys.exit(main())
"""


def slow_file(path: Path, lines: int = 200_000) -> Path:
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        above = None
        for number in range(lines):
            uuid = f"c1a0de00-0000-4000-8000-{number:012}"
            file.write(claude_line(uuid, above, f"line {number}"))
            above = uuid
    return path


@pytest.mark.parametrize("command", ["show", "tree"])
def test_a_command_waits_as_long_as_the_daemon_reads(
    daemon: Daemon, tmp_path: Path, command: str
) -> None:
    path = slow_file(tmp_path / "projects" / "-p" / f"{CLAUDE.format(7)}.jsonl")
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, command, str(path), "--socket", str(daemon.socket_path)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "line 199999" in done.stdout
    assert time.monotonic() - begun > 2 * PATIENCE_SECONDS
