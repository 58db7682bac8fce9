"""Commands that are forks of one process end as the program does, and by the signals of their callers."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.kit.patience import PATIENCE_SECONDS
from tests.processes.harness.daemon import SESSIOND
from tests.processes.harness.shell import Shell

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_a_fork_as_it_ends_the_program(shell: Shell, number: signal.Signals) -> None:
    statuses = set[int]()
    for program in (shell.command, SESSIOND):
        with subprocess.Popen(
            [program, "tail", "-f", "my-session"], env=shell.environment, stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline()
            process.send_signal(number)
            # The end of the output comes when neither the caller nor the command is there any more.
            process.stdout.read()
            statuses.add(process.wait(PATIENCE_SECONDS))
    assert len(statuses) == 1


def test_what_its_caller_left_has_ended_before_the_next_command_begins(
    sessiond_program: str, socket_path: Path, home: Path
) -> None:
    command = [sessiond_program, "serve", "--socket", str(socket_path), "--home", str(home)]
    for _ in range(20):
        with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
            assert process.stderr is not None
            said = process.stderr.readline()
            process.kill()
        # The one before has let go of its lock.
        assert b'"event":"serving"' in said, said


def test_a_fork_writes_and_refuses_as_the_program_does(shell: Shell) -> None:
    script = "{0} show my-session; {0} show nosuch; echo $?; {0} --version; {0} | head -3"
    said = []
    for program in ("sessiond", SESSIOND):
        done = shell.run("set +e; " + script.format(program))
        said.append((done.stdout, done.stderr))
    assert said[0] == said[1]
