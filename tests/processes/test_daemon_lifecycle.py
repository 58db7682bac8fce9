"""The start and end of a daemon, and its refusals to touch foreign files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.kit.link import request
from tests.kit.patience import PATIENCE_SECONDS
from tests.kit.sessions import SESSION
from tests.processes.harness.daemon import SESSIOND, Daemon

pytestmark = pytest.mark.slow


def refused(*arguments: object, environment: Mapping[str, str]) -> str:
    """Start a daemon that cannot serve; its one line of complaint."""
    done = subprocess.run(
        [SESSIOND, "serve", *map(str, arguments)],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    reason: str = json.loads(line)["reason"]
    return reason


def test_a_second_daemon_of_a_profile_names_the_first_and_ends(
    daemon: Daemon, tmp_path: Path
) -> None:
    with daemon.connect() as link:
        link.ask("session/create", cwd="/p", session_id=SESSION)
        other = tmp_path / "other"
        reason = refused("--socket", other, environment=daemon.environment)
        assert f"pid {daemon.pid}," in reason
        assert not other.exists()
        # The first one noticed nothing.
        assert link.say(SESSION, "still here")["seq"] == 1


def test_a_second_profile_has_a_daemon_of_its_own_but_not_the_same_socket(daemon: Daemon) -> None:
    with daemon.connect() as link:
        reason = refused(
            *("--profile", "other", "--socket", daemon.socket_path),
            environment=daemon.environment,
        )
        assert reason == f"another process listens on {daemon.socket_path}"
        assert link.ask("server/ping") is not None
    daemon.connect().close()


def test_a_regular_file_at_the_path_of_the_socket_is_left_alone(
    socket_path: Path, home: Path
) -> None:
    socket_path.write_text("precious\n", "utf-8")
    environment = {**os.environ, "SESSIOND_HOME": str(home / "data")}
    reason = refused("--socket", socket_path, environment=environment)
    assert reason == f"{socket_path} is not a socket; it was left alone"
    assert socket_path.read_text("utf-8") == "precious\n"


def test_a_home_that_cannot_be_made_is_named(socket_path: Path, home: Path) -> None:
    in_the_way = home / "file"
    in_the_way.touch()
    environment = {**os.environ, "SESSIOND_HOME": str(in_the_way / "data")}
    assert str(in_the_way) in refused("--socket", socket_path, environment=environment)
    assert not socket_path.exists()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_what_was_sent_before_a_signal_is_stored_and_answered(
    daemon: Daemon, how: signal.Signals
) -> None:
    sent = 300
    with daemon.connect() as link:
        link.ask("session/create", cwd="/p", session_id=SESSION)
        message = {"role": "assistant", "content": "x" * 1000}
        link.send(
            b"".join(
                request(f"a{n}", "session/append", session_id=SESSION, message=message)
                for n in range(sent)
            )
        )
        # The first answer is here, so the daemon holds some of the others or is storing them.
        assert link.answer("a0")["seq"] == 1
        assert daemon.end(how) == 0
        answers = [json.loads(line) for line in link.rest().splitlines()]
    stored = [answer["result"]["seq"] for answer in answers if "result" in answer]
    refusals = [answer["error"]["data"]["kind"] for answer in answers if "error" in answer]
    assert stored == list(range(2, 2 + len(stored)))
    assert set(refusals) <= {"draining"}
    assert not daemon.socket_path.exists()
    (path,) = daemon.files(SESSION)
    assert path.read_bytes().count(b"\n") == 1 + 1 + len(stored)
    daemon.start()
    with daemon.connect() as link:
        assert link.ask("session/get", session_id=SESSION)["session"]["seq"] == 1 + len(stored)


def test_a_socket_that_a_killed_daemon_left_is_taken_over(daemon: Daemon) -> None:
    with daemon.connect() as link:
        link.ask("session/create", cwd="/p", session_id=SESSION)
        assert link.say(SESSION, "before")["durability"] == "disk"
    daemon.kill()
    assert daemon.socket_path.is_socket()
    daemon.start()
    with daemon.connect() as link:
        assert link.contents(SESSION) == ["before"]


def test_server_stop_ends_the_process_with_0(daemon: Daemon) -> None:
    with daemon.connect() as link:
        link.ask("server/stop")
        link.rest()
    assert daemon.end() == 0
    assert not daemon.socket_path.exists()
