"""The Python clients where they were not made: in a process that was forked, and in other event loops."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.forking import SCENES
from tests.processes.harness.daemon import Daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.conformance]

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("scene", [scene.__name__ for scene in SCENES])
def test_a_client_works_where_it_was_not_made(server: Daemon, scene: str) -> None:
    server.connect().close()
    # Newer Pythons warn of forks beside threads, which are the case here.
    warned = ["-W", "ignore::DeprecationWarning"]
    program = [sys.executable, *warned, "-m", "tests.interop.forking", scene]
    done = subprocess.run(
        [*program, str(server.socket_path)], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
