"""The Python clients where they were not made: in a process that was forked, and in other event loops."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes.harness.daemon import Daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.conformance]

REPOSITORY = Path(__file__).resolve().parents[2]


def test_clients_work_where_they_were_not_made(server: Daemon) -> None:
    server.connect().close()
    # Newer Pythons warn of forks beside threads, which are the case here.
    program = [sys.executable, "-W", "ignore::DeprecationWarning", "-m", "tests.interop.forking"]
    done = subprocess.run(
        [*program, str(server.socket_path)], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
