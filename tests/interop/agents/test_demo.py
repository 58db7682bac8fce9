"""`make demo-agents`: two agents of different makes, killed again and again, lose and repeat nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(240)]

REPOSITORY = Path(__file__).resolve().parents[3]


def test_the_demo_finds_every_message_once_and_one_context(typescript_client: Path) -> None:
    assert typescript_client.is_dir()  # built already: the demo's own seconds go to the agents
    done = subprocess.run(
        [sys.executable, "-m", "tests.demo.agents", "--seconds", "12", "--seed", "3"],
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
