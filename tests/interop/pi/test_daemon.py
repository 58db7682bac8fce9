"""pi with the extension while the daemon comes, goes, or cannot run."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sessiond_client import Presence, connect_blocking
from tests.interop.pi.conftest import Pi, Watcher
from tests.kit.patience import PATIENCE_SECONDS
from tests.processes.harness.daemon import SESSIOND, Daemon, running

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(180)]


def shows(state: str, event: Any) -> bool:
    """Return whether an event shows that a client is in a state."""
    return isinstance(event, Presence) and any(one.state == state for one in event.clients)


def test_pi_is_present_again_after_the_daemon_was_killed(
    pi: Pi, watcher: Watcher, server: Daemon
) -> None:
    (before,) = watcher.present(bool)
    server.end(signal.SIGKILL)
    pi.prompt("Without a daemon")
    server.start()
    (after,) = watcher.present(bool)
    assert after.client_id == before.client_id
    watcher.until_entry(lambda entry: "You said: Without a daemon" in str(entry))
    # A signal is lost on a side that does not listen again yet: both sides are waited for. The first state may
    # come with the answer to a subscription, which replays behind the answer and lets signals pass by.
    for state in ("back", "here"):
        watcher.client.presence(watcher.session, state=state)
        watcher.until(partial(shows, state))
        while f"({state})" not in "".join(pi.notices()[-1:]):
            pi.ask("prompt", message="/sessiond")
    assert "not read" not in pi.notices()[-1]
    assert watcher.ask("steer", text="Go on").kind == "taken"
    pi.until(lambda told: told["type"] == "agent_end")
    ids = [entry["id"] for entry in watcher.entries]
    assert len(ids) == len(set(ids))


def test_pi_works_on_where_no_daemon_can_be_started(start_pi: Callable[..., Pi]) -> None:
    pi = start_pi(variables={"SESSIOND_COMMAND": "/bin/false"})
    pi.prompt("Hello")
    while not pi.notices():
        pi.until(lambda told: told["type"] == "extension_ui_request")
    pi.prompt("Again")
    pi.prompt('And [call bash {"command": "echo on"}]')
    (notice,) = pi.notices()
    assert "other programs do not see this session" in notice
    assert pi.end() == 0
    assert pi.log.read_text("utf-8") == ""


def test_the_next_prompt_tries_again_after_a_start_that_failed(
    start_pi: Callable[..., Pi], socket_path: Path, home: Path
) -> None:
    pi = start_pi(variables={"SESSIOND_COMMAND": "/bin/false"})
    pi.prompt("Hello")
    while not pi.notices():
        pi.until(lambda told: told["type"] == "extension_ui_request")
    with running(Daemon(socket_path, home / "data")) as server:
        server.connect().close()
        with connect_blocking(socket_path) as client:
            watcher = Watcher(client, pi.file())
            pi.prompt("Again")
            watcher.present(bool)
        assert pi.end() == 0


def test_the_extension_starts_a_daemon(
    start_pi: Callable[..., Pi], socket_path: Path, home: Path
) -> None:
    pi = start_pi()
    pi.prompt("Hello")
    path = pi.file()
    try:
        while "present: no other client" not in "".join(pi.notices()[-1:]):
            pi.ask("prompt", message="/sessiond")
        with connect_blocking(socket_path) as client:
            watcher = Watcher(client, path)
            watcher.present(lambda found: [one.state for one in found] == ["idle"])
        assert pi.end() == 0
    finally:
        command = [SESSIOND, "--home", str(home / "data"), "--socket", str(socket_path), "stop"]
        subprocess.run(command, check=True, timeout=PATIENCE_SECONDS)
    assert pi.log.read_text("utf-8") == ""


def test_a_daemon_that_the_user_stopped_stays_so(pi: Pi, watcher: Watcher, server: Daemon) -> None:
    watcher.present(bool)
    server.end(signal.SIGTERM)
    pi.prompt("Alone")
    pi.prompt("Still alone")
    assert not server.socket_path.exists()
    assert pi.notices() == []


def test_print_mode_ends_with_its_answer(
    server: Daemon, start_pi: Callable[..., Pi], tmp_path: Path
) -> None:
    server.connect().close()
    pi = start_pi("--mode", "json", "-p", "Hello")
    out, _ = pi.process.communicate(timeout=PATIENCE_SECONDS)
    assert pi.process.returncode == 0
    assert "You said: Hello" in str([json.loads(line) for line in out.splitlines()])
