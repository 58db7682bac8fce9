"""`sessiond import --move-to` with a real server, real daemons, and `kill -9` in the middle."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.postgresql.cluster import Cluster
from tests.postgresql.sharing_daemon import SharingDaemon
from tests.processes.harness.daemon import SESSIOND, Daemon, running

pytestmark = pytest.mark.slow

SESSIONS = 60
EACH = 20
THERE = "SELECT session_id FROM sessiond.sessions WHERE NOT is_deleted"


def moving(daemon: SharingDaemon, *words: str) -> subprocess.Popen[str]:
    command = [SESSIOND, "import", "--json", "--move-to", *words]
    return subprocess.Popen(
        command,
        env=dict(daemon.environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def moved(daemon: SharingDaemon, *words: str, status: int = 0) -> Any:
    """Return what a move prints."""
    process = moving(daemon, *words)
    told, errors = process.communicate(timeout=120)
    assert process.returncode == status, errors
    return json.loads(told or errors)


def shown(daemon: Daemon) -> dict[str, Any]:
    """Return the sessions and the values that a daemon shows."""
    with daemon.connect() as link:
        listed = link.ask("session/list", limit=1000, archived=None)["sessions"]
        found: dict[str, Any] = {
            one["id"]: (
                one["lineage"].get("parent_id"),
                one["archived"],
                link.ask("session/entries", session_id=one["id"])["entries"],
            )
            for one in listed
        }
        found["value"] = link.ask("state/get", namespace="notes", key="a")["value"]
        found["secret"] = link.ask("secret/get", namespace="keys", key="k")["value"]
        return found


@pytest.mark.search
def test_a_profile_moves_there_and_back_though_it_is_killed_on_the_way(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    socket = own_cluster.folder / "s.sock"
    files = Daemon(socket, tmp_path / "home")
    shared = SharingDaemon(socket, tmp_path / "home", own_cluster.folder)
    other = SharingDaemon(own_cluster.folder / "o.sock", tmp_path / "other", own_cluster.folder)
    with running(files), files.connect() as link:
        for number in range(SESSIONS):
            session_id = f"session-{number:03}"
            link.ask("session/create", session_id=session_id, cwd="/p", persist="immediate")
            for at in range(EACH):
                link.say(session_id, f"{number} {at} \u2028 é")
        link.ask("session/fork", session_id="session-000")
        link.ask("session/archive", session_id="session-001")
        link.ask("state/set", namespace="notes", key="a", value={"n": 1})
        link.ask("secret/set", namespace="keys", key="k", value="v")
        refused = moved(shared, "database", status=1)
        assert "sessiond stop" in refused["error"]["next"]
        before = shown(files)
    assert moved(shared, "database", "--dry-run")["sessions"] == SESSIONS + 1
    with running(other):
        for moved_count in (5, 20, 40):
            process = moving(shared, "database")
            own_cluster.wait_for(THERE, moved_count)
            process.kill()
            process.communicate()
        moved(shared, "database")
        there = [name for (name,) in own_cluster.sql(THERE)]
        assert len(there) == len(set(there)) == SESSIONS + 1
        with running(shared):
            assert shown(shared) == before
        with other.connect() as link:
            assert link.contents("session-002") == [f"2 {at} \u2028 é" for at in range(EACH)]
            link.say("session-002", "from the other daemon")
        process = moving(shared, "files")
        own_cluster.wait_for(f"SELECT 1 WHERE (SELECT count(*) FROM ({THERE}) AS left_there) < 40")
        process.kill()
        process.communicate()
        assert moved(shared, "files")["failed"] == []
        with other.connect() as link:
            assert link.ask("session/list", archived=None)["sessions"] == []
    with running(files):
        after = shown(files)
        assert len(after.pop("session-002")[2]) == len(before.pop("session-002")[2]) + 1
        assert after == before


def kill_before_the_delete(cluster: Cluster, daemon: SharingDaemon) -> None:
    """Begin a move to files, and kill it once the file of the session is there."""
    with cluster.holding("SELECT 1 FROM sessiond.sessions FOR UPDATE"):
        process = moving(daemon, "files")
        cluster.wait_for_waiters(1)
        process.kill()
        process.communicate()
        # The server would carry the statement out that it has.
        cluster.sql(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE application_name = 'sessiond' AND wait_event_type = 'Lock'"
        )


def test_a_session_with_which_another_daemon_went_on_behind_a_killed_move_is_moved(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    shared, other = SharingDaemon.pair(own_cluster.folder, tmp_path)
    with running(other), other.connect() as link:
        link.ask("session/create", session_id="my-session", cwd="/p", persist="immediate")
        link.say("my-session", "one")
        kill_before_the_delete(own_cluster, shared)
        link.say("my-session", "two")
        assert moved(shared, "files")["failed"] == []
        # Another session gets the id.
        link.ask("session/create", session_id="my-session", cwd="/q", persist="immediate")
        (stays,) = moved(shared, "files", status=1)["failed"]
        assert (stays["kind"], stays["taken"]) == ("session_exists", True)
        told = subprocess.run(
            [SESSIOND, "import", "--move-to", "files"],
            env=dict(shared.environment),
            capture_output=True,
            text=True,
        )
        assert (told.returncode, "both stay where they are" in told.stderr) == (1, True)
    files = Daemon(shared.socket_path, tmp_path / "home-1")
    with running(files), files.connect() as link:
        assert link.contents("my-session") == ["one", "two"]


def test_a_session_that_was_deleted_behind_a_killed_move_goes_to_the_trash(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    shared, other = SharingDaemon.pair(own_cluster.folder, tmp_path)
    with running(other), other.connect() as link:
        link.ask("session/create", session_id="my-session", cwd="/p", persist="immediate")
        kill_before_the_delete(own_cluster, shared)
        link.ask("session/delete", session_id="my-session")
        link.ask("session/purge", session_id="my-session")
        told = moved(shared, "files")
        assert (told["sessions"], told["failed"]) == (0, [])
        (noted,) = told["noted"]
        assert (noted["what"], noted["name"]) == ("sessions", "my-session")
        assert "sessiond restore my-session" in noted["message"]
        assert moved(shared, "files")["noted"] == []
    files = Daemon(shared.socket_path, tmp_path / "home-1")
    with running(files), files.connect() as link:
        assert link.ask("session/list", archived=None)["sessions"] == []
        link.ask("session/restore", session_id="my-session")


def test_an_operator_decides_which_values_of_a_namespace_stay(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    shared, other = SharingDaemon.pair(own_cluster.folder, tmp_path)
    files = Daemon(shared.socket_path, tmp_path / "home-1")
    for daemon, value in ((files, "in-the-file"), (other, "in-the-database")):
        with running(daemon), daemon.connect() as link:
            link.ask("state/set", namespace="notes", key="a", value=value)
    (stays,) = moved(shared, "database", status=1)["failed"]
    assert stays["taken"]
    assert stays["message"].endswith("the two differ in: a")
    told = subprocess.run(
        [SESSIOND, "import", "--move-to", "database"],
        env=dict(shared.environment),
        capture_output=True,
        text=True,
    )
    assert "--on-conflict keep-source" in told.stderr
    assert "in-the-" not in told.stderr
    (noted,) = moved(shared, "database", "--on-conflict", "keep-source")["noted"]
    (aside,) = (tmp_path / "home-1").rglob("notes.json.aside-*")
    assert noted["message"].endswith(str(aside))
    assert "in-the-database" in aside.read_text("utf-8")
    with running(other), other.connect() as link:
        assert link.ask("state/get", namespace="notes", key="a")["value"] == "in-the-file"


def test_without_a_database_a_move_says_what_is_missing(home: Path) -> None:
    run = subprocess.run(
        [SESSIOND, "import", "--move-to", "database"], capture_output=True, text=True
    )
    assert run.returncode == 2
    assert "set store" in run.stderr
