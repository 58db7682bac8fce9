"""A daemon whose socket, or whose profile, was removed: commands reach it again, or it ends."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.patience import PATIENCE_SECONDS, soon
from tests.kit.sessions import HI, SESSION
from tests.processes import held_daemon
from tests.processes.harness.daemon import SESSIOND, Daemon, running

pytestmark = pytest.mark.slow


@pytest.fixture
def server(tmp_path: Path, socket_path: Path) -> Daemon:
    return Daemon(socket_path.parent / "run" / "sessiond" / "s", tmp_path / "home")


def command(server: Daemon, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command on the socket."""
    return subprocess.run(
        [SESSIOND, *words, "--socket", str(server.socket_path)],
        env=server.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )


@pytest.mark.parametrize("above", [0, 1, 2])
def test_commands_reach_a_daemon_whose_socket_was_removed(server: Daemon, above: int) -> None:
    with running(server), server.connect() as link:
        link.ask("session/create", session_id=SESSION, cwd="/p", persist="immediate")
        if above:
            shutil.rmtree(server.socket_path.parents[above - 1])
        else:
            server.socket_path.unlink()
        done = command(server, "list", "--json")
        assert done.returncode == 0, done.stderr
        assert [one["id"] for one in json.loads(done.stdout)["sessions"]] == [SESSION]
        # The lock told of the daemon: no command has started another one, which would have a log.
        assert not (server.profile / "daemon.log").exists()
        # The first connection goes on, at the same daemon.
        assert link.ask("append", session_id=SESSION, message=HI)["seq"] == 1
        assert link.ask("server/info")["pid"] == server.pid
        stopped = command(server, "stop", "--json")
        assert json.loads(stopped.stdout)["pid"] == server.pid
        assert server.end() == 0
    assert "listens again" in server.said()


def forget_birth(server: Daemon) -> None:
    """Make the record of the daemon's lock one of 0.1.0."""
    (record,) = [
        path for path in (server.home / "locks").iterdir() if "\nsocket " in path.read_text()
    ]
    text = record.read_text()
    assert "\nbirth " in text
    record.write_text(re.sub("birth .*\n", "", text))


@pytest.mark.parametrize("is_old", [False, True])
def test_a_daemon_that_can_make_no_socket_is_stopped_by_a_signal(
    server: Daemon, *, is_old: bool
) -> None:
    with running(server):
        server.connect().close()
        if is_old:
            forget_birth(server)
        shutil.rmtree(server.socket_path.parents[1])
        # A link to nothing is in the way.
        server.socket_path.parents[1].symlink_to("nowhere/at/all")
        done = command(server, "stop", "--json")
        assert (done.returncode, json.loads(done.stdout)["pid"]) == (0, server.pid)
        assert server.end() == 0


@pytest.mark.parametrize("is_made_anew", [False, True])
def test_a_daemon_whose_home_was_removed_ends(server: Daemon, *, is_made_anew: bool) -> None:
    with running(server):
        server.connect().close()
        shutil.rmtree(server.home)
        other = Daemon(server.socket_path.with_name("other"), server.home)
        if is_made_anew:
            with running(other):
                other.connect().close()
                server.socket_path.unlink()
                assert server.end() == 0
                with other.connect() as link:
                    assert link.ask("server/info")["pid"] == other.pid
        else:
            server.socket_path.unlink()
            assert server.end() == 0
    assert "its profile was removed" in server.said()
    soon(lambda: not server.socket_path.exists())


def test_a_look_that_hangs_holds_up_neither_calls_nor_the_end(
    server: Daemon, tmp_path: Path
) -> None:
    folder = tmp_path / "held"
    folder.mkdir()
    program = [sys.executable, held_daemon.__file__, str(folder)]
    hung = Daemon(server.socket_path, server.home, program=program)
    with running(hung), hung.connect() as link:
        os.mkfifo(folder / "hold")
        server.socket_path.unlink()
        soon((folder / "reached").exists)
        link.ask("session/create", session_id=SESSION, cwd="/p", persist="immediate")
        assert link.ask("append", session_id=SESSION, message=HI)["seq"] == 1
        assert (folder / "opened").read_text() == "daemon.lock\n"
        assert hung.end(signal.SIGTERM) == 0
    assert not server.socket_path.exists()


def test_a_look_that_hung_is_followed_by_a_socket(server: Daemon, tmp_path: Path) -> None:
    folder = tmp_path / "held"
    folder.mkdir()
    program = [sys.executable, held_daemon.__file__, str(folder)]
    hung = Daemon(server.socket_path, server.home, program=program)
    with running(hung):
        hung.connect().close()
        os.mkfifo(folder / "hold")
        server.socket_path.unlink()
        soon((folder / "reached").exists)
        assert not server.socket_path.exists()
        (folder / "hold").write_bytes(b"")
        hung.connect().close()


@pytest.mark.skipif(os.getuid() != 0, reason="only root may make a PID namespace")
@pytest.mark.parametrize("is_old", [False, True])
def test_no_words_name_the_pid_of_a_daemon_in_a_container(server: Daemon, *, is_old: bool) -> None:
    program = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", SESSIOND]
    inside = Daemon(server.socket_path, server.home, program=program)
    outside = Daemon(server.socket_path.with_name("other"), server.home)
    with running(inside), inside.connect() as link:
        assert link.ask("server/info")["pid"] == 1
        if is_old:
            forget_birth(inside)
        who = "another daemon" if is_old else "a daemon on another machine or in another container"
        for words in (["start"], ["stop"], ["status"], ["list"], ["doctor"]):
            done = command(outside, *words)
            assert done.returncode != 0
            told = done.stdout + done.stderr
            assert who in told
            assert not re.search(r"\b(pid|process) \d", told), told
        assert outside.start_in_vain().startswith(who)
        found = json.loads(command(outside, "profiles", "--json").stdout)["profiles"]
        assert [(one["running"], one["pid"]) for one in found] == [(True, None)]
        link.ask("server/stop")
        assert inside.end() == 0
