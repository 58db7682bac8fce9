"""`sessiond serve` with a database: what people see when the database comes and goes."""

from __future__ import annotations

import json
import signal
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.kit.link import Link, Refused
from tests.kit.patience import soon
from tests.postgresql.cluster import Cluster
from tests.postgresql.sharing_daemon import SharingDaemon
from tests.processes.harness.daemon import SESSIOND, running

pytestmark = pytest.mark.slow

PASSWORD = "S3CRET-of-the-role"


def sessiond(
    daemon: SharingDaemon, *words: str, program: str = SESSIOND
) -> subprocess.CompletedProcess[str]:
    """Run a command against a daemon."""
    command = [program, *words, "--socket", str(daemon.socket_path)]
    run = subprocess.run(command, env=dict(daemon.environment), capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run


def status(daemon: SharingDaemon) -> str:
    """Return what `sessiond status` prints."""
    return sessiond(daemon, "status").stdout


def was_said(link: Link, text: str) -> bool:
    """Append a message; return False while the database is away."""
    try:
        link.say("my-session", text)
    except Refused as refusal:
        if refusal.kind != "storage_error":
            raise
        return False
    return True


def last_log(daemon: SharingDaemon) -> dict[str, Any]:
    line: dict[str, Any] = json.loads(daemon.said().splitlines()[-1])
    return line


@pytest.mark.search
def test_a_daemon_lives_through_the_death_of_its_database(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    daemon = SharingDaemon(own_cluster.folder / "s.sock", tmp_path / "home", own_cluster.folder)
    with running(daemon), daemon.connect() as link:
        link.ask("session/create", session_id="my-session", cwd="/p", persist="immediate")
        link.say("my-session", "one")
        assert f"sessions in postgresql://{own_cluster.folder}" in status(daemon)
        # Lists are known.
        assert "one" in sessiond(daemon, "show", "my-session").stdout
        before = datetime.now(UTC).replace(microsecond=0)
        own_cluster.kill()
        # Reads come from the copy, and what only the database can tell is no answer.
        assert link.contents("my-session") == ["one"]
        since = link.ask("session/get", session_id="my-session")["_meta"]["stale_since"]
        assert before <= datetime.fromisoformat(since) <= datetime.now(UTC)
        shown = sessiond(daemon, "show", "my-session")
        assert "one" in shown.stdout
        assert shown.stderr.startswith("the database has not answered since ")
        assert shown.stderr.count("may be old") == 1
        as_json = sessiond(daemon, "show", "my-session", "--json")
        assert json.loads(as_json.stdout)["_meta"]["stale_since"] == since
        for method, members in (
            ("append", {"message": {"role": "user", "content": "lost"}}),
            ("session/entry", {"entry_id": "unknown-entry"}),
        ):
            with pytest.raises(Refused) as refused:
                link.ask(method, session_id="my-session", **members)
            assert (refused.value.kind, refused.value.data["retryable"]) == ("storage_error", True)
        assert "which has not answered since" in status(daemon)
        own_cluster.start()
        soon(lambda: was_said(link, "two"))
        assert link.contents("my-session") == ["one", "two"]
        assert "has not answered" not in status(daemon)
        assert "_meta" not in link.ask("session/get", session_id="my-session")
        assert sessiond(daemon, "show", "my-session").stderr == ""
        daemon.end(signal.SIGKILL)
        daemon.start()
        with daemon.connect() as again:
            assert again.contents("my-session") == ["one", "two"]


def test_a_command_says_the_password(own_cluster: Cluster, tmp_path: Path) -> None:
    own_cluster.require_password("guarded", PASSWORD)
    socket = own_cluster.folder / "s.sock"
    daemon = SharingDaemon(socket, tmp_path / "home", own_cluster.folder, role="guarded")
    daemon.start()
    assert daemon.end() == 1
    assert "password" in last_log(daemon)["reason"]
    daemon.settings["SESSIOND_STORE_PASSWORD_COMMAND"] = json.dumps(["false"])
    daemon.start()
    assert daemon.end() == 1
    assert "store_password_command" in last_log(daemon)["reason"]
    daemon.settings["SESSIOND_STORE_PASSWORD_COMMAND"] = json.dumps(["echo", PASSWORD])
    with running(daemon), daemon.connect() as link:
        link.ask("session/create", session_id="my-session", cwd="/p")
    assert PASSWORD not in daemon.said()


def test_a_profile_is_a_schema(own_cluster: Cluster, tmp_path: Path, sessiond_program: str) -> None:
    for profile, schema in (("default", "sessiond"), ("work", "sessiond_work")):
        daemon = SharingDaemon(own_cluster.folder / "s.sock", tmp_path / "home", own_cluster.folder)
        daemon.settings["SESSIOND_PROFILE"] = profile
        with running(daemon), Link(daemon.socket_path, alive=daemon.require_running) as link:
            link.ask(
                "session/create", session_id=f"session-of-{profile}", cwd="/p", persist="immediate"
            )
            assert [one["id"] for one in link.ask("session/list")["sessions"]] == [
                f"session-of-{profile}"
            ]
            said = sessiond(daemon, "status", program=sessiond_program).stdout
            assert f"sessions in postgresql://{own_cluster.folder}" in said
        assert own_cluster.sql(f"SELECT count(*) FROM {schema}.sessions") == [["1"]]


def test_a_daemon_of_an_earlier_version_goes_on_until_it_is_started_again(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    daemon = SharingDaemon(own_cluster.folder / "s.sock", tmp_path / "home", own_cluster.folder)
    with running(daemon), daemon.connect() as link:
        link.ask("session/create", session_id="my-session", cwd="/p", persist="immediate")
        # What a daemon of a later version does, beside its additions.
        own_cluster.sql("UPDATE sessiond.meta SET version = version + 1")
        own_cluster.cut_connections()
        soon(lambda: was_said(link, "on new connections"))
        assert link.contents("my-session") == ["on new connections"]
    daemon.start()
    assert daemon.end() == 1
    reason = last_log(daemon)["reason"]
    for said in (
        "has version 7, and",
        "versions up to 6",
        "install that sessiond here",
        "docs/running.md",
    ):
        assert said in reason


@pytest.mark.search
def test_what_a_server_says_of_a_refusal_is_not_logged(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    own_cluster.sql("CREATE ROLE visitor LOGIN SUPERUSER")
    socket = own_cluster.folder / "s.sock"
    daemon = SharingDaemon(socket, tmp_path / "home", own_cluster.folder, role="visitor")
    with running(daemon), daemon.connect() as link:
        link.ask("session/create", session_id="my-session", cwd="/p", persist="immediate")
        own_cluster.sql("ALTER ROLE visitor NOLOGIN")
        own_cluster.cut_connections()
        while was_said(link, "one"):
            pass
        assert "which has not answered since" in status(daemon)
        own_cluster.sql("ALTER ROLE visitor LOGIN")
        soon(lambda: was_said(link, "two"))
        own_cluster.kill()
        while was_said(link, "three"):
            pass
    assert [line for line in daemon.said().splitlines() if "visitor" in line] == []
    assert "connect" not in daemon.said()
