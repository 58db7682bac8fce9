"""The conformance kit with a client, a daemon or a command line that is wrong.

A mistake of a client fails its case, and the next case is run. A run that cannot begin or go on
ends with `Bail out!` and exit status 2. In no test does the kit show a traceback.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Final

import pytest

from tests.kit.patience import PATIENCE_SECONDS
from tests.processes.harness.daemon import SESSIOND, Daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop]

KIT: Final = Path(__file__).resolve().parents[2] / "tests" / "conformance"
CASES: Final = ["create-and-get", "append-message"]
DAEMON: Final = f"{SESSIOND} serve --socket {{socket}} --home {{home}}"
# The runner with a patience of its own.
RUNNER: Final = """
import sys
sys.path.insert(0, sys.argv.pop(1))
import run
run.STEP_SECONDS = float(sys.argv.pop(1))
sys.exit(run.main())
"""
# The plainest client, with a place for what it says to each step.
CLIENT: Final = """
import json, os, signal, sys
sys.path.insert(0, {kit!r})
import wire
client = wire.Wire()
def say(value):
    print(json.dumps(value), flush=True)
{first}
for line in sys.stdin:
    step = json.loads(line)
    {each}
{last}
"""
ANSWER: Final = "say(client.do(step))"


def run_kit(*arguments: str, seconds: int = 30) -> subprocess.CompletedProcess[str]:
    """Run the kit; require that the kit shows no traceback."""
    done = subprocess.run(
        [sys.executable, "-c", RUNNER, str(KIT), str(seconds), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def client_command(folder: Path, *, first: str = "", each: str = ANSWER, last: str = "") -> str:
    """Write a client; return the command that starts the client."""
    program = folder / "client.py"
    each = textwrap.indent(each, "    ").lstrip()
    program.write_text(CLIENT.format(kit=str(KIT), first=first, each=each, last=last), "utf-8")
    return shlex.join([sys.executable, str(program)])


MISTAKES: Final = {
    "a debug line": ("print('debug: connected', flush=True)", "no JSON", "'debug: connected'"),
    "a long debug line": ("print('x' * 100_000, flush=True)", "no JSON", "xxx"),
    "deep nesting": ("print('[' * 100_000, flush=True)", "no JSON", "[[["),
    "no UTF-8": ("os.write(1, bytes([255, 10]))", "the client's line is no UTF-8", ""),
    "no object": ("say(1)", "JSON, but no object", ": '1'"),
    "an end": ("sys.exit(3)", "the client ended (status 3)", ""),
    "an end in a line": ("os.write(1, b'{'); sys.exit(3)", "(status 3) without a line", "'{'"),
    "a closed output": ("os.close(1)", "the client closed its output", ""),
    "an answer as JSON": ("say({'answer': {'result': {}}})", "answer is no JSON text", ""),
    "an answer that is no JSON": ("say({'answer': 'well'})", "answer is no JSON: 'well'", ""),
    "no line": ("signal.pause()", "no line from the client in 2 s", ""),
    "half a line": ("os.write(1, b'{'); signal.pause()", "no line from the client", "'{'"),
}


# A client that says half a line has to say it before the runner's patience ends.
@pytest.mark.parametrize(
    "what",
    [
        pytest.param(what, marks=pytest.mark.real_clock if what == "half a line" else ())
        for what in MISTAKES
    ],
)
def test_a_mistake_of_a_client_fails_the_case_and_the_next_case_is_run(
    what: str, server: Daemon, tmp_path: Path
) -> None:
    each, *reasons = MISTAKES[what]
    server.connect().close()
    command = client_command(tmp_path, each=each)
    seconds = 2 if "pause" in each else 30
    done = run_kit(
        "--socket", str(server.socket_path), "--client", command, *CASES, seconds=seconds
    )
    plan, *lines = done.stdout.splitlines()
    assert (done.returncode, plan, len(lines)) == (1, "1..2", 2)
    for number, (line, case) in enumerate(zip(lines, CASES, strict=True), 1):
        assert line.startswith(f"not ok {number} - {case} # step 1: ")
        assert [reason for reason in reasons if reason not in line] == []
        assert len(line) < 300


def test_a_client_that_ends_before_its_first_step_fails_the_case(
    server: Daemon, tmp_path: Path
) -> None:
    server.connect().close()
    command = client_command(tmp_path, first="sys.exit(4)")
    done = run_kit("--socket", str(server.socket_path), "--client", command, *CASES)
    assert done.returncode == 1
    assert done.stdout.count("the client ended (status 4)") == 2


def test_a_child_of_a_silent_client_does_not_hold_the_run(server: Daemon, tmp_path: Path) -> None:
    server.connect().close()
    inner = client_command(tmp_path, each="signal.pause()")
    command = shlex.join(["sh", "-c", f"{inner}; true"])
    done = run_kit("--socket", str(server.socket_path), "--client", command, CASES[0], seconds=2)
    assert done.returncode == 1
    assert "no line from the client in 2 s" in done.stdout


def test_a_client_that_cannot_close_is_ended_after_each_case(
    server: Daemon, tmp_path: Path
) -> None:
    server.connect().close()
    each = f"say({{'unsupported': 'no'}}) if step['do'] == 'close' else {ANSWER}"
    command = client_command(tmp_path, each=each)
    done = run_kit("--socket", str(server.socket_path), "--client", command, *CASES)
    assert (done.returncode, done.stdout.count("\nok ")) == (0, 2)


def test_a_client_that_fails_to_close_fails_the_case(server: Daemon, tmp_path: Path) -> None:
    server.connect().close()
    each = f"say({{'failed': 'it broke'}}) if step['do'] == 'close' else {ANSWER}"
    command = client_command(tmp_path, each=each)
    done = run_kit("--socket", str(server.socket_path), "--client", command, *CASES)
    assert done.returncode == 1
    assert done.stdout.count("# close after the last step: it broke") == 2


@pytest.mark.real_clock
def test_a_client_that_runs_on_after_its_input_ended_is_killed(
    server: Daemon, tmp_path: Path
) -> None:
    server.connect().close()
    command = client_command(tmp_path, last="signal.pause()")
    done = run_kit("--socket", str(server.socket_path), "--client", command, CASES[0], seconds=6)
    assert (done.returncode, done.stdout) == (0, f"1..1\nok 1 - {CASES[0]}\n")


WRONG_COMMANDS: Final = {
    "a misspelt case": (
        ["--daemon", DAEMON, "creat-and-get"],
        "there is no case creat-and-get: did you mean create-and-get",
    ),
    "no such case": (["--daemon", DAEMON, "qqq"], "there is no case qqq: each file in cases/"),
    "no daemon program": (["--daemon", "./no-such"], "--daemon cannot be started: ./no-such: No"),
    "a daemon that ends": (["--daemon", "false"], "the daemon command ended with status 1"),
    "a daemon that does not listen": (["--daemon", "sleep 600"], "see that it uses {socket}"),
    "braces": (["--daemon", "sessiond {sock}"], "braces other than {socket} and {home}"),
    "a quote": (["--daemon", "sessiond '"], "--daemon is no command: No closing quotation"),
    "an empty daemon": (["--daemon", ""], "--daemon is empty"),
    "no daemon listens": (["--socket", "/no/such"], "no daemon listens on /no/such"),
    "a long path": (["--socket", "/" + "x" * 200], "no socket can be at"),
    "no client program": (
        ["--daemon", DAEMON, "--client", "./no-such"],
        "--client cannot be started: ./no-such: No",
    ),
    "a client that is no program": (
        ["--daemon", DAEMON, "--client", str(KIT / "README.md")],
        "Permission denied",
    ),
    "an empty client": (["--daemon", DAEMON, "--client", " "], "--client is empty"),
}


@pytest.mark.parametrize("what", WRONG_COMMANDS)
def test_a_run_that_cannot_begin_says_what_to_do(what: str) -> None:
    arguments, reason = WRONG_COMMANDS[what]
    done = run_kit(*arguments, seconds=2 if "sleep 600" in arguments else 30)
    last = done.stdout.splitlines()[-1]
    assert last.startswith("Bail out! ")
    assert reason in last
    assert done.returncode == 2


STUBBORN: Final = """
import signal, socket, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with socket.socket(socket.AF_UNIX) as listener:
    listener.bind(sys.argv[1])
    listener.listen()
    while True:
        listener.accept()
"""


@pytest.mark.real_clock
def test_a_daemon_that_does_not_end_is_killed_and_told(tmp_path: Path) -> None:
    program = tmp_path / "stubborn.py"
    program.write_text(STUBBORN, "utf-8")
    command = f"{sys.executable} {program} {{socket}}"
    client = client_command(tmp_path, each="say({'unsupported': 'no'})")
    done = run_kit("--daemon", command, "--client", client, CASES[0], seconds=6)
    assert done.stdout.splitlines() == [
        "1..1",
        f"ok 1 - {CASES[0]} # SKIP no",
        "Bail out! the daemon ran on for 6 s after SIGTERM, and was killed: a daemon ends on SIGTERM",
    ]
    assert done.returncode == 2


@pytest.mark.real_clock
def test_a_daemon_that_outlives_its_command_is_told(tmp_path: Path) -> None:
    left = tmp_path / "pid"
    command = f"sh -c '{DAEMON} >/dev/null 2>&1 & echo $! >{left}; wait'"
    done = run_kit("--daemon", command, "payload-after-restart", seconds=2)
    os.kill(int(left.read_text()), signal.SIGKILL)
    assert done.stdout.splitlines()[1] == (
        "not ok 1 - payload-after-restart # step 4: the daemon listens 2 s after its command has ended"
    )
