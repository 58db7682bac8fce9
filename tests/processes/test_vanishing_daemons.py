"""A daemon that hangs and is killed while a command waits: the command is answered by a new daemon."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
from pathlib import Path

import pytest

from tests.kit.patience import PATIENCE_SECONDS, paused
from tests.processes.harness.shell import Shell

pytestmark = pytest.mark.slow


def hanging(shell: Shell) -> int:
    """Stop the daemon where it is; return its pid."""
    pid: int = shell.json("sessiond start --json")["pid"]
    os.kill(pid, signal.SIGSTOP)
    return pid


def answered(shell: Shell, *words: str) -> tuple[int, str, str]:
    """Run a command whose daemon hangs and is killed; return status, output and error output."""
    pid = hanging(shell)
    command = shell.start(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    # The kill finds the command before its connection, or behind its request: the outcome is the same.
    paused(random.Random(" ".join(words)), 0.5, 0.8)
    os.kill(pid, signal.SIGKILL)
    said, error = command.communicate(timeout=PATIENCE_SECONDS)
    return command.returncode, said, error


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("list", "my-session-id"),
        ("search cron", "my-session-id"),
        ("show my-session", "my-session-id"),
        ("tree my-session", "Why is it late?"),
    ],
)
def test_a_reading_command_is_answered_by_a_new_daemon(
    shell: Shell, command: str, shown: str
) -> None:
    status, said, error = answered(shell, *command.split(), "--json")
    assert (status, error) == (0, "")
    assert shown in said


def test_an_append_is_stored_once_by_a_new_daemon(shell: Shell) -> None:
    status, said, error = answered(shell, "append", "my-session", "Once?", "--json")
    assert (status, error) == (0, "")
    assert json.loads(said)["seq"] == 3
    path = Path(shell.json("sessiond show my-session --json")["session"]["path"])
    assert path.read_text("utf-8").count("Once?") == 1


def test_a_new_daemon_reads_the_configuration_that_the_command_names(shell: Shell) -> None:
    config = shell.folder / "own.toml"
    config.write_text("[compaction]\nreserve_tokens = 4321\n")
    status, _, error = answered(shell, "list", "--json", "--config", str(config))
    assert (status, error) == (0, "")
    daemon = Path("/proc", str(shell.json("sessiond status --json")["pid"]), "cmdline")
    assert str(config).encode() in daemon.read_bytes().split(b"\0")
