"""A running daemon: its configuration, its signals, and its end when no client uses it."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sessiond.limits import LOG_BYTES_MAX
from tests.kit.link import Refused
from tests.kit.patience import PATIENCE_SECONDS, soon
from tests.kit.processes import unix_connections
from tests.kit.roots import pi_file, put
from tests.processes.harness.machine import LIST, Machine

pytestmark = pytest.mark.slow

AT_ONCE = 8


class Foreground:
    """`sessiond serve` whose log lines a test waits for."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.pid = process.pid

    def hears(self, event: str) -> dict[str, Any]:
        """Return the next log line of this kind."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            said: dict[str, Any] = json.loads(line)
            if said["event"] == event:
                return said
        raise AssertionError(f"it ended without {event!r}")

    def ends(self) -> int:
        """Its status, once it has ended."""
        self.process.communicate(timeout=PATIENCE_SECONDS)
        return self.process.returncode


@contextmanager
def serving(machine: Machine, *arguments: object, **settings: Any) -> Iterator[Foreground]:
    with machine.spawn("serve", *arguments, **settings) as process:
        try:
            daemon = Foreground(process)
            daemon.hears("serving")
            yield daemon
        finally:
            process.kill()


def configure(machine: Machine, text: str) -> Path:
    path = machine.home / ".config" / "sessiond" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def everything(*folders: Path) -> dict[str, int]:
    return {str(path): path.lstat().st_mode for folder in folders for path in folder.rglob("*")}


# -- the configuration ------------------------------------------------------------------------


def test_limits_of_the_configuration_are_in_force_and_shown(machine: Machine) -> None:
    configure(machine, "[limits]\nmemory_sessions = 1\nconnections = 3\n")
    machine.environment["SESSIOND_LIMITS_OPEN_SESSIONS"] = "9"
    with serving(machine), machine.connect() as link:
        shown = link.ask("server/info")["limits"]
        assert shown["max_memory_sessions"] == 1
        assert shown["max_open_sessions"] == 9
        assert shown["idle_session_ms"] == 300_000
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert min(soft, 65_536) <= shown["open_files"] <= hard
        link.ask("session/create", cwd="/p", persist="never")
        with pytest.raises(Refused) as refused:
            link.ask("session/create", cwd="/p", persist="never")
        assert refused.value.kind == "overloaded"
        with machine.connect() as second, machine.connect() as third:
            assert second.ask("server/ping")["ok"]
            assert third.ask("server/ping")["ok"]
            with machine.connect() as fourth:
                assert fourth.message()["error"]["data"]["closing"] is True
                assert fourth.rest() == b""


def test_a_hangup_has_the_configuration_read_again(machine: Machine) -> None:
    path = configure(machine, "")
    with serving(machine) as daemon, machine.connect() as link:
        path.write_text("[limits]\nopen_sessions = 7\n[retention]\nmax_age_hours = 1\n")
        os.kill(daemon.pid, signal.SIGHUP)
        assert daemon.hears("configuration read")["changed"] == ["limits", "retention"]
        # It runs in the background: what it logs must not come when nothing is logged any more.
        assert daemon.hears("retention done")["sessions"] == 0
        assert link.ask("server/info")["limits"]["max_open_sessions"] == 7
        path.write_text("[limits]\nopen_sessions = 8\nopen_doors = 1\n")
        os.kill(daemon.pid, signal.SIGHUP)
        assert "limits.open_doors is not a key" in daemon.hears("configuration kept")["reason"]
        assert link.ask("server/info")["limits"]["max_open_sessions"] == 7
        path.write_text(f'socket = "{machine.runtime}/other.sock"\n')
        os.kill(daemon.pid, signal.SIGHUP)
        assert daemon.hears("configuration needs a restart")["keys"] == ["socket"]
        path.write_text('log_level = "error"\n[limits]\nopen_sessions = 9\n')
        os.kill(daemon.pid, signal.SIGHUP)
        # Two signals that arrive together are in no order, and nothing is logged any more.
        while link.ask("server/info")["limits"]["max_open_sessions"] != 9:
            pass
        daemon.process.send_signal(signal.SIGTERM)
        link.rest()
        assert daemon.process.communicate(timeout=PATIENCE_SECONDS)[1] == b""


def test_roots_of_the_configuration_are_listed_from_the_start_and_leave_after_a_hangup(
    machine: Machine, tmp_path: Path
) -> None:
    root = tmp_path / "pi"
    put(root / "--p--", "one", pi_file("session-p1", "x"))
    path = configure(machine, f'[roots]\npi = ["{root}"]\n')
    with serving(machine) as daemon, machine.connect() as link:
        # Right after the start, when no scan has run.
        (listed,) = link.ask("session/list")["sessions"]
        assert (listed["id"], listed["agent_program"]) == ("session-p1", "pi")
        path.write_text("")
        os.kill(daemon.pid, signal.SIGHUP)
        assert daemon.hears("configuration read")["changed"] == ["roots"]
        # Roots are resolved beside the loop, and take effect when that is done.
        while link.ask("session/list")["sessions"]:
            pass
        daemon.process.send_signal(signal.SIGTERM)


def test_a_socket_of_the_configuration_is_where_everybody_looks(machine: Machine) -> None:
    place = machine.runtime / "chosen.sock"
    configure(machine, f'socket = "{place}"\n')
    assert machine.tell("start")["socket"] == str(place)
    assert machine.run("stdio", data=LIST).returncode == 0
    assert machine.tell("sockname")["socket"] == str(place)
    shown = {each["key"]: each for each in machine.tell("config")["settings"]}
    assert shown["socket"]["value"] == str(place)
    assert shown["socket"]["source"].endswith("config.toml")
    assert shown["log_level"]["source"] == "default"


@pytest.mark.parametrize("command", ["serve", "start", "stdio", "status", "config"])
def test_a_configuration_that_is_wrong_is_wrong_usage(machine: Machine, command: str) -> None:
    path = configure(machine, "[limits]\nopen_doors = 1\n")
    done = machine.run(command)
    assert done.returncode == 2
    assert done.stdout == b""
    assert f"{path}: limits.open_doors is not a key; the keys are " in done.stderr.decode()
    assert machine.served() == []


def test_another_file_can_be_named(machine: Machine, tmp_path: Path) -> None:
    path = tmp_path / "other.toml"
    path.write_text("[limits]\nconnections = 77\n")
    machine.tell("start", "--config", path)
    with machine.connect() as link:
        assert link.ask("server/info")["limits"]["max_connections"] == 77


# -- signals ----------------------------------------------------------------------------------


def test_everybody_is_told_before_the_end_also_who_never_said_a_word(machine: Machine) -> None:
    with serving(machine) as daemon:
        with machine.connect() as quiet, machine.connect() as framed, machine.connect() as line:
            framed.send(b'Content-Length: 33\r\n\r\n{"id":1,"method":"server/ping"}  ')
            assert framed.line() is not None
            line.ask("server/ping")
            os.kill(daemon.pid, signal.SIGTERM)
            told = [link.rest() for link in (quiet, framed, line)]
        assert daemon.ends() == 0
    for said in told:
        assert said.count(b'"server/draining"') == 1
    assert told[1].count(b"Content-Length: ") == 1


def test_a_second_signal_ends_it_at_once(machine: Machine) -> None:
    with serving(machine) as daemon, machine.connect() as link:
        message = {"role": "user", "content": "kept"}
        link.ask("session/create", cwd="/p", session_id="session-a", persist="immediate")
        link.ask("session/append", session_id="session-a", message=message)
        # Answers that nobody reads: the orderly end would wait for them.
        page = json.dumps({"id": 1, "method": "server/info"}).encode() + b"\n"
        link.flood(page, 1 << 23)
        os.kill(daemon.pid, signal.SIGTERM)
        with machine.connect() as other:
            while not other.ask("server/ping")["draining"]:
                pass
        os.kill(daemon.pid, signal.SIGTERM)
        daemon.hears("ended at once by a second signal")
        assert daemon.ends() == 1
    with serving(machine), machine.connect() as link:
        assert link.contents("session-a") == ["kept"]


# -- nobody uses it -----------------------------------------------------------------------------


def test_a_daemon_that_nobody_uses_ends_and_leaves_nothing_behind(machine: Machine) -> None:
    machine.tell("start")
    machine.tell("stop")
    before = everything(machine.home, machine.runtime)
    with serving(machine, "--idle-exit", "0.1") as daemon:
        daemon.hears("ends: no client used it")
        assert daemon.ends() == 0
    assert everything(machine.home, machine.runtime) == before


# sessiond, which says on its standard output for how long it waits for a client before it ends.
WITH_TIMERS = """
import types
import anyio
from sessiond.cli import main
from sessiond.daemon import idle

def move_on_after(seconds):
    print("waits", seconds, flush=True)
    return anyio.move_on_after(seconds)

idle.anyio = types.SimpleNamespace(move_on_after=move_on_after)
main()
"""


def test_who_is_connected_or_only_in_memory_keeps_it(machine: Machine) -> None:
    program = (sys.executable, "-c", WITH_TIMERS)
    with serving(machine, "--idle-exit", "300", program=program) as daemon:
        before = unix_connections(daemon.pid)
        with machine.connect() as link:
            link.create(session_id="session-m", persist="never")
        # Nobody is connected any more; the next client finds what was only in memory.
        soon(lambda: unix_connections(daemon.pid) == before)
        with machine.connect() as link:
            assert link.ask("session/get", session_id="session-m")["session"]["seq"] == 0
        assert daemon.process.stdout is not None
        # Before the first client came, and never since.
        assert os.read(daemon.process.stdout.fileno(), 1000) == b"waits 300.0\n"
        os.kill(daemon.pid, signal.SIGTERM)
        assert daemon.ends() == 0


def test_who_was_started_for_clients_ends_when_they_are_gone(machine: Machine) -> None:
    started = machine.tell("start")
    with machine.connect() as link:
        assert link.ask("server/ping")["ok"]
    shown = json.loads(machine.run("config", "--json").stdout)["settings"]
    assert {each["key"]: each["value"] for each in shown}["idle_exit_seconds"] == 1800
    configure(machine, "idle_exit_seconds = 0.1\n")
    process = os.pidfd_open(started["pid"])
    os.kill(started["pid"], signal.SIGHUP)
    import select

    assert select.select([process], [], [], PATIENCE_SECONDS)[0]
    os.close(process)
    assert '"ends: no client used it"' in machine.log
    assert not machine.socket.exists()


def test_many_clients_of_an_ending_daemon_find_the_next_one(machine: Machine) -> None:
    configure(machine, "idle_exit_seconds = 0.05\n")
    for _ in range(3):
        bridges = [machine.spawn("stdio") for _ in range(AT_ONCE)]
        for bridge in bridges:
            out, err = bridge.communicate(LIST, timeout=PATIENCE_SECONDS)
            # Joined in the very moment of its end: it says so, and the next one is joined.
            if bridge.returncode == 0 and b'"draining"' not in out:
                assert json.loads(out)["result"]["sessions"] == []
            else:
                assert b'"draining"' in out or b"ended" in err
    assert '"cannot' not in machine.log


# -- old sessions ------------------------------------------------------------------------------


def test_old_sessions_go_to_the_trash_when_the_configuration_says_so(machine: Machine) -> None:
    path = configure(machine, "")
    with serving(machine) as daemon, machine.connect() as link:
        for name in ("session-a", "session-b"):
            link.ask("session/create", cwd="/p", session_id=name, persist="immediate")
            link.say(name, "old by then")
        link.ask("session/subscribe", session_id="session-b")
        path.write_text("[retention]\nmax_age_hours = 1e-9\n")
        os.kill(daemon.pid, signal.SIGHUP)
        assert daemon.hears("retention done")["sessions"] == 1
        listed = link.ask("session/list")["sessions"]
        assert [session["id"] for session in listed] == ["session-b"]
        assert len(list((machine.profile / "trash").iterdir())) == 1
        assert len(list((machine.profile / "sessions").iterdir())) == 1
        link.ask("session/unsubscribe", session_id="session-b")
        path.write_text("[retention]\nmax_age_hours = 1\n")
        os.kill(daemon.pid, signal.SIGHUP)
        assert daemon.hears("retention done")["sessions"] == 0


# -- its log ----------------------------------------------------------------------------------


def test_a_long_log_is_put_aside_at_a_start(machine: Machine) -> None:
    machine.tell("start")
    machine.tell("stop")
    log = machine.profile / "daemon.log"
    log.write_bytes(b"x" * (LOG_BYTES_MAX + 1))
    machine.tell("start")
    assert (machine.profile / "daemon.log.1").stat().st_size == LOG_BYTES_MAX + 1
    assert '"serving"' in machine.log


def test_a_log_does_not_grow_with_what_connects_and_leaves(machine: Machine) -> None:
    machine.tell("start")
    before = machine.log
    for _ in range(3):
        with machine.connect() as link:
            link.ask("server/ping")
        with machine.connect() as link:
            link.send(b'{"method":"exit"}\n')
            link.rest()
    with machine.connect() as stranger:
        stranger.send(b"GET / HTTP/1.1\r\n")
        stranger.rest()
    machine.tell("stop")
    events = [json.loads(line)["event"] for line in machine.log[len(before) :].splitlines()]
    assert sorted(events) == ["connection closed", "stopped"]


def test_the_level_of_the_log_is_the_users(machine: Machine) -> None:
    machine.environment["SESSIOND_LOG_LEVEL"] = "warning"
    machine.tell("start")
    machine.tell("stop")
    assert machine.log == ""
