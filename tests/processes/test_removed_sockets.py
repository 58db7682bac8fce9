"""A daemon whose socket, or whose profile, was removed: commands reach it again, or it ends."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.kit.patience import PATIENCE_SECONDS, soon
from tests.kit.sessions import HI, SESSION
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
        # The first connection goes on, at the same daemon.
        assert link.ask("append", session_id=SESSION, message=HI)["seq"] == 1
        assert link.ask("server/info")["pid"] == server.pid
        stopped = command(server, "stop", "--json")
        assert json.loads(stopped.stdout)["pid"] == server.pid
        assert server.end() == 0
    assert "listens again" in server.said()


def test_a_daemon_that_can_make_no_socket_is_stopped_by_a_signal(server: Daemon) -> None:
    with running(server):
        server.connect().close()
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
