"""Clients find a daemon, whichever client comes first and however the last daemon ended."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import stat
import subprocess
from pathlib import Path

import pytest

from tests.kit.patience import PATIENCE_SECONDS
from tests.processes.harness.daemon import SESSIOND
from tests.processes.harness.machine import LIST, Machine

pytestmark = pytest.mark.slow

AT_ONCE = 10


def test_ten_bridges_at_once_start_one_daemon(machine: Machine) -> None:
    bridges = [machine.spawn("stdio") for _ in range(AT_ONCE)]
    for bridge in bridges:
        out, err = bridge.communicate(LIST, timeout=PATIENCE_SECONDS)
        assert bridge.returncode == 0, err
        assert json.loads(out)["result"]["sessions"] == []
        assert err == b""
    assert machine.log.count('"serving"') == 1
    assert machine.log.count('"cannot') == 0
    (profile,) = machine.served()
    assert profile["socket"] == str(machine.socket)
    assert stat.S_IMODE(machine.socket.stat().st_mode) == 0o600
    assert stat.S_IMODE(machine.socket.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE((machine.profile / "daemon.log").stat().st_mode) == 0o600


def test_after_a_kill_the_next_client_starts_it_again(machine: Machine) -> None:
    first = machine.tell("start")
    with machine.connect() as link:
        link.ask("session/create", cwd="/p", session_id="session-a")
        link.say("session-a", "before")
        os.kill(first["pid"], signal.SIGKILL)
        link.rest()
    assert machine.socket.is_socket()
    request = b'{"id":1,"method":"session/entries","params":{"session_id":"session-a"}}\n'
    answer = json.loads(machine.run("stdio", data=request).stdout)
    assert answer["result"]["entries"][0]["entry"]["message"]["content"] == "before"
    (profile,) = machine.served()
    assert profile["pid"] != first["pid"]


@pytest.mark.parametrize("line", ["stdio", "stdio --stdio", "--stdio", "--no-start --stdio"])
def test_the_flag_that_editors_pass_means_the_bridge(machine: Machine, line: str) -> None:
    machine.tell("start")
    done = machine.run(*line.split(), data=b'{"id":1,"method":"server/ping"}\n')
    assert "result" in json.loads(done.stdout)


@pytest.mark.parametrize("server", ["lsp", "mcp", "stdio"])
def test_each_server_on_standard_streams_takes_the_flag(machine: Machine, server: str) -> None:
    machine.tell("start")
    assert b"No such option" not in machine.run(server, "--stdio", data=b"").stderr


def test_start_is_said_once_and_stop_waits_until_the_process_is_gone(machine: Machine) -> None:
    assert machine.tell("status", status=3) == {
        "running": False,
        "socket": str(machine.socket),
        "profile": "default",
        "home": str(machine.data),
    }
    first = machine.tell("start")
    assert first["started"]
    assert first["running"]
    second = machine.tell("start")
    assert second == {**first, "started": False}
    status = machine.tell("status")
    assert {name: status[name] for name in ("pid", "instance_id")} == {
        name: first[name] for name in ("pid", "instance_id")
    }
    process = os.pidfd_open(first["pid"])
    assert machine.tell("stop") == {"running": False, "stopped": True, "pid": first["pid"]}
    assert select.select([process], [], [], 1)[0] == [process]
    os.close(process)
    assert not machine.socket.exists()
    assert machine.tell("stop") == {"running": False, "stopped": False, "pid": None}


def test_restart_starts_what_did_not_run_and_replaces_what_did(machine: Machine) -> None:
    first = machine.tell("restart")
    assert (first["stopped"], first["started"]) == (False, True)
    second = machine.tell("restart")
    assert (second["stopped"], second["started"]) == (True, True)
    assert second["pid"] != first["pid"]


def test_a_start_outlives_its_starter_and_belongs_to_no_terminal(machine: Machine) -> None:
    pid = machine.tell("start")["pid"]
    assert os.getsid(pid) not in (os.getsid(0), os.getpid())
    assert Path(f"/proc/{pid}/cwd").readlink() == Path("/")
    assert Path(f"/proc/{pid}/fd/0").readlink() == Path("/dev/null")
    opened = {path.readlink().name for path in Path(f"/proc/{pid}/fd").iterdir()}
    assert "start.lock" not in opened


def test_profiles_have_a_daemon_each(machine: Machine) -> None:
    machine.tell("start")
    other = machine.tell("start", "--profile", "other")
    assert other["socket"] == str(machine.socket.with_name("other.sock"))
    listed = machine.tell("profiles")["profiles"]
    assert [(each["name"], each["running"]) for each in listed] == [
        ("default", True),
        ("other", True),
    ]
    machine.tell("stop", "--profile", "other")
    assert [each["name"] for each in machine.served()] == ["default"]


def test_a_home_of_its_own_has_a_socket_of_its_own(machine: Machine) -> None:
    first = machine.tell("start")
    other = machine.tell("start", "--home", machine.home / "other")
    try:
        assert other["socket"] != first["socket"]
        assert other["home"] == str(machine.home / "other")
    finally:
        machine.tell("stop", "--home", machine.home / "other")


def test_a_profile_that_is_served_elsewhere_says_where(machine: Machine) -> None:
    elsewhere = machine.runtime / "elsewhere"
    pid = machine.tell("start", "--socket", elsewhere)["pid"]
    for command in ("start", "stdio"):
        done = machine.run(command)
        assert done.returncode == 3
        said = done.stderr.decode()
        assert f"pid {pid}" in said
        assert f"listens on {elsewhere}" in said
    done = machine.run("stop")
    assert done.returncode == 1
    assert str(elsewhere) in done.stderr.decode()


def test_who_is_named_and_who_listens_are_the_same(machine: Machine) -> None:
    place = machine.runtime / "s.sock"
    home = machine.home / "other"
    named = ("--socket", place)
    pid = machine.tell("start", *named, "--profile", "work", "--home", home)["pid"]
    for command in ("start", "stop"):
        done = machine.run(command, *named, "--profile", "play")
        assert done.returncode == 3
        assert "serves profile work, not profile play" in done.stderr.decode()
        done = machine.run(command, *named, "--home", machine.home / "third")
        assert f"serves sessions in {home}" in done.stderr.decode()
    # Who names only the socket means whoever listens there.
    status = machine.tell("status", *named)
    assert (status["pid"], status["profile"], status["home"]) == (pid, "work", str(home))
    process = os.pidfd_open(pid)
    assert machine.tell("stop", *named)["pid"] == pid
    assert select.select([process], [], [], 1)[0] == [process]
    os.close(process)


def test_a_profile_on_the_command_line_wins_over_the_socket_of_the_environment(
    machine: Machine,
) -> None:
    place = machine.tell("start")["socket"]
    machine.tell("start", "--profile", "work")
    for profile in ("default", "work"):
        machine.tell("new", "--id", "plan-of-mine", "--profile", profile)
    machine.environment["SESSIOND_SOCKET"] = place
    try:
        assert machine.run("delete", "plan-of-mine", "--profile", "work").returncode == 0
        kept = {
            profile: machine.tell("list", "--profile", profile)["sessions"]
            for profile in ("default", "work")
        }
        work = machine.tell("start", "--profile", "work")
        assert (work["profile"], work["started"]) == ("work", False)
        named = machine.tell("sockname", "--home", machine.home / "other")["socket"]
    finally:
        del machine.environment["SESSIOND_SOCKET"]
    assert [session["id"] for session in kept["default"]] == ["plan-of-mine"]
    assert kept["work"] == []
    assert named != place


def test_a_profile_on_the_command_line_wins_over_the_socket_of_the_configuration(
    machine: Machine,
) -> None:
    place = machine.runtime / "configured.sock"
    file = machine.home / "config.toml"
    file.write_text(f'socket = "{place}"\n', "utf-8")
    machine.environment["SESSIOND_CONFIG"] = str(file)
    try:
        assert machine.tell("start")["socket"] == str(place)
        work = machine.tell("start", "--profile", "work")
        assert work["profile"] == "work"
        assert work["socket"] != str(place)
        machine.tell("stop", "--profile", "work")
    finally:
        del machine.environment["SESSIOND_CONFIG"]


@pytest.mark.parametrize(
    "command",
    [["list"], ["call", "session/list"], ["stdio"], ["status"], ["delete", "plan-of-mine"]],
    ids=lambda command: command[0],
)
@pytest.mark.parametrize("said_by", ["flag", "environment"])
def test_a_socket_that_serves_another_profile_than_the_named_one_is_refused(
    machine: Machine, command: list[str], said_by: str
) -> None:
    place = machine.tell("start")["socket"]
    machine.tell("new", "--id", "plan-of-mine")
    if said_by == "flag":
        done = machine.run(*command, "--socket", place, "--profile", "work")
    else:
        machine.environment |= {"SESSIOND_SOCKET": place, "SESSIOND_PROFILE": "work"}
        done = machine.run(*command)
        del machine.environment["SESSIOND_SOCKET"], machine.environment["SESSIOND_PROFILE"]
    assert done.returncode == 3, done
    assert "serves profile default, not profile work" in done.stderr.decode()
    assert done.stdout == b""
    assert [each["id"] for each in machine.tell("list")["sessions"]] == ["plan-of-mine"]


@pytest.mark.parametrize("command", ["start", "stdio"])
def test_why_a_daemon_cannot_start_is_what_its_starter_says(machine: Machine, command: str) -> None:
    machine.socket.parent.mkdir(mode=0o700)
    machine.socket.write_text("precious")
    done = machine.run(command)
    assert done.returncode == 3
    assert done.stdout == b""
    assert f"{machine.socket} is not a socket; it was left alone" in done.stderr.decode()
    assert machine.socket.read_text() == "precious"


def test_whoever_listens_without_an_answer_is_named(machine: Machine) -> None:
    pid = machine.tell("start")["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        done = machine.run("stop", "--timeout", "0.5")
        assert done.returncode == 1
        assert f"pid {pid}" in done.stderr.decode()
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_temporary_folder_that_others_may_write_to_is_refused(machine: Machine) -> None:
    del machine.environment["XDG_RUNTIME_DIR"]
    folder = machine.runtime / f"sessiond-{os.getuid()}"
    done = machine.tell("start")
    assert done["socket"] == str(folder / "default.sock")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    machine.tell("stop")
    folder.chmod(0o770)
    for command in ("start", "stdio", "serve", "status"):
        done = machine.run(command)
        assert done.returncode in (1, 3)
        assert "0700 is needed" in done.stderr.decode()
    folder.chmod(0o700)
    folder.rename(folder.with_name("real"))
    folder.symlink_to("real")
    assert b"is no folder" in machine.run("start").stderr


def test_a_long_path_is_reached(machine: Machine) -> None:
    folder = machine.home / ("x" * 100)
    place = folder / ("y" * 50) / "s.sock"
    assert machine.tell("start", "--socket", place)["socket"] == str(place)
    done = machine.run("stdio", "--socket", place, data=LIST)
    assert done.returncode == 0, done
    assert place.is_socket()
    machine.tell("stop", "--socket", place)
    assert not place.exists()
    machine.environment["XDG_RUNTIME_DIR"] = str(folder)
    named = machine.tell("start")["socket"]
    assert Path(named).parent == machine.runtime / f"sessiond-{os.getuid()}"
    assert machine.run("sockname").stdout.decode() == f"{named}\n"


# -- the bridge ------------------------------------------------------------------------------


def test_a_bridge_copies_either_framing_and_sends_every_answer_before_its_end(
    machine: Machine,
) -> None:
    machine.tell("start")
    body = LIST.strip()
    framed = b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    done = machine.run("stdio", data=framed * 500)
    assert done.returncode == 0
    assert done.stdout.count(b"Content-Length: ") == 500
    assert done.stderr == b""
    assert machine.run("stdio", data=LIST * 500).stdout.count(b"\n") == 500


def test_a_bridge_whose_daemon_dies_says_so_and_fails(machine: Machine) -> None:
    pid = machine.tell("start")["pid"]
    with machine.spawn("stdio") as bridge:
        assert bridge.stdin is not None
        assert bridge.stdout is not None
        assert bridge.stderr is not None
        bridge.stdin.write(LIST)
        bridge.stdin.flush()
        assert json.loads(bridge.stdout.readline())["id"] == 1
        os.kill(pid, signal.SIGKILL)
        assert bridge.wait(PATIENCE_SECONDS) == 1
        assert bridge.stdout.read() == b""
        assert b"the daemon ended" in bridge.stderr.read()


def test_a_bridge_that_was_told_exit_ends_well(machine: Machine) -> None:
    with machine.spawn("stdio") as bridge:
        assert bridge.stdin is not None
        bridge.stdin.write(b'{"id":1,"method":"shutdown"}\n{"method":"exit"}\n')
        bridge.stdin.flush()
        assert bridge.wait(PATIENCE_SECONDS) == 0


# -- a service manager -------------------------------------------------------------------------

HAND_OVER = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=sys.argv[2], LISTEN_FDNAMES="x")
os.execv(sys.argv[3], [sys.argv[3], "serve"])
"""


def handed(machine: Machine, descriptor: int, count: int = 1) -> subprocess.Popen[bytes]:
    import sys

    return subprocess.Popen(
        [sys.executable, "-c", HAND_OVER, str(descriptor), str(count), SESSIOND],
        env=machine.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        pass_fds=[descriptor],
    )


def test_a_socket_of_the_service_manager_is_served_and_left_behind(machine: Machine) -> None:
    place = machine.runtime / "given.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen()
        for _ in range(2):
            with handed(machine, listener.fileno()) as daemon:
                assert machine.run("stdio", "--socket", place, data=LIST).returncode == 0
                assert machine.tell("status", "--socket", place)["pid"] == daemon.pid
                # Who looks elsewhere is told where it is.
                assert f"listens on {place}" in machine.run("start").stderr.decode()
                machine.tell("stop", "--socket", place)
                assert daemon.wait(PATIENCE_SECONDS) == 0
            assert place.is_socket()


@pytest.mark.parametrize(
    ("kind", "count", "reason"),
    [
        ("file", 1, "descriptor 3 is no socket"),
        ("datagram", 1, "descriptor 3 is no Unix stream socket"),
        ("deaf", 1, "descriptor 3 is a socket that does not listen"),
        ("deaf", 2, "LISTEN_FDS is 2: one listening Unix socket is needed"),
    ],
)
def test_what_no_socket_activation_gives_is_refused(
    machine: Machine, kind: str, count: int, reason: str
) -> None:
    made: dict[str, object] = {
        "file": (machine.home / "file").open("wb"),
        "datagram": socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM),
        "deaf": socket.socket(socket.AF_UNIX),
    }
    with handed(machine, made[kind].fileno(), count) as daemon:  # type: ignore[attr-defined]
        _, err = daemon.communicate(timeout=PATIENCE_SECONDS)
    assert daemon.returncode == 1
    assert json.loads(err)["reason"] == reason
    for each in made.values():
        each.close()  # type: ignore[attr-defined]
