"""`sessiond doctor` on a database: each fault is said with what to do, and nothing is changed."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.postgresql.cluster import Cluster
from tests.postgresql.conftest import Findings
from tests.postgresql.sharing_daemon import SharingDaemon
from tests.processes.harness.daemon import SESSIOND, running

pytestmark = pytest.mark.slow


def advice(found: dict[str, str | None], word: str) -> str | None:
    """Return what to do about the fact with this word."""
    (said,) = [then for what, then in found.items() if word in what]
    return said


def test_each_fault_is_found_and_nothing_is_changed(
    own_cluster: Cluster, tmp_path: Path, findings: Findings
) -> None:
    daemon = SharingDaemon(own_cluster.folder / "s.sock", tmp_path / "home", own_cluster.folder)
    first = findings(daemon)
    assert set(first.values()) == {None}
    assert any("has no tables" in what for what in first)
    assert own_cluster.sql("SELECT 1 FROM pg_namespace WHERE nspname = 'sessiond'") == []
    with running(daemon), daemon.connect() as link:
        link.ask("session/create", session_id="my-session", cwd="/p", persist="immediate")
        link.say("my-session", "S3CRET words")
        well = findings(daemon)
        assert set(well.values()) == {None}
        assert any("1 session," in what for what in well)
        link.ask("session/list")
        assert not any("missing" in what for what in findings(daemon, "catalog"))
        assert any("notifications come through" in what for what in well)
    own_cluster.configure(fsync="off")
    assert "switch them on" in (advice(findings(daemon), "fsync") or "")
    own_cluster.configure(fsync=None)
    own_cluster.sql("DELETE FROM sessiond.lines WHERE seq = 1")
    damaged = findings(daemon)
    assert advice(damaged, "counts other lines") == "see `sessiond verify my-session`"
    assert "S3CRET" not in str(damaged)
    own_cluster.sql("UPDATE sessiond.meta SET version = version + 1")
    assert "install that sessiond here" in (advice(findings(daemon), "later than") or "")
    own_cluster.kill()
    assert "start the server" in (advice(findings(daemon), "could not connect") or "")
    password = {"SESSIOND_STORE_PASSWORD_COMMAND": json.dumps(["false"])}
    assert "store_password_command" in (advice(findings(daemon, **password), "password") or "")


def test_a_server_with_fewer_connections_left_than_daemons_take_is_found(
    own_cluster: Cluster, tmp_path: Path, findings: Findings
) -> None:
    daemons = SharingDaemon.pair(own_cluster.folder, tmp_path)
    with running(daemons[0]), daemons[0].connect() as link:
        link.ask("session/create", session_id="my-session", cwd="/p", persist="immediate")
        link.ask("subscribe", session_id="my-session")
        own_cluster.wait_for("SELECT 1 FROM sessiond.daemons")
        assert advice(findings(daemons[0]), "1 daemon had sessions open") is None
        # Notes of five more daemons.
        own_cluster.sql(
            "INSERT INTO sessiond.daemons (daemon, beats)"
            " SELECT 'daemon-' || one, 1 FROM generate_series(1, 5) AS one"
        )
        found = findings(daemons[0])
        assert "raise max_connections" in (advice(found, "6 daemons had sessions open") or "")
        assert any("of the server's 100 connections" in what for what in found)


def test_a_queue_of_notifications_that_fills_up_is_found(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sessiond.postgresql import examining

    def then() -> str | None:
        found = examining.examine(cluster.dsn(), "sessiond", None)
        return advice({one.what: one.next for one in found}, "notifications")

    assert then() is None
    # A whole queue has 8 GB.
    monkeypatch.setattr(examining, "_QUEUE_PERCENT", 0)
    assert "pg_stat_activity" in (then() or "")


def test_a_role_that_may_not_do_the_work_of_a_daemon_is_found(
    own_cluster: Cluster, tmp_path: Path, findings: Findings
) -> None:
    own_cluster.sql("CREATE ROLE member LOGIN")
    daemon = SharingDaemon(own_cluster.folder / "s.sock", tmp_path / "home", own_cluster.folder)
    member = {"SESSIOND_STORE": daemon.settings["SESSIOND_STORE"].replace("tests", "member")}
    said = "may not make the tables"
    assert "grant the role CREATE" in (advice(findings(daemon, **member), said) or "")
    own_cluster.sql("CREATE SCHEMA sessiond AUTHORIZATION member")
    assert set(findings(daemon, **member).values()) == {None}
    with running(daemon), daemon.connect():
        pass
    own_cluster.sql("ALTER SCHEMA sessiond OWNER TO tests")
    assert "grant the role USAGE" in (advice(findings(daemon, **member), "may not use") or "")
    own_cluster.sql(
        "GRANT USAGE ON SCHEMA sessiond TO member;"
        " GRANT SELECT ON ALL TABLES IN SCHEMA sessiond TO member"
    )
    found = findings(daemon, **member)
    assert "grant the rights" in (advice(found, "INSERT, UPDATE on sessions; INSERT, DELETE") or "")
    own_cluster.sql("GRANT ALL ON ALL TABLES IN SCHEMA sessiond TO member")
    assert set(findings(daemon, **member).values()) == {None}
    own_cluster.sql("UPDATE sessiond.meta SET version = version - 1")
    assert "own the schema" in (advice(findings(daemon, **member), "may not bring") or "")
    own_cluster.sql("ALTER ROLE member SET default_transaction_read_only = on")
    assert "the primary" in (advice(findings(daemon, **member), "session is read-only") or "")


def test_tables_that_are_missing_or_without_a_version_are_found(
    own_cluster: Cluster, tmp_path: Path, findings: Findings
) -> None:
    daemon = SharingDaemon(own_cluster.folder / "s.sock", tmp_path / "home", own_cluster.folder)
    with running(daemon), daemon.connect():
        pass
    for table in ("senders", "numbers", "claims", "documents", "daemons", "sessions", "meta"):
        own_cluster.sql(f"ALTER TABLE sessiond.{table} RENAME TO elsewhere")
        assert "from a backup" in (advice(findings(daemon), f"of daemons: {table}") or "")
        own_cluster.sql(f"ALTER TABLE sessiond.elsewhere RENAME TO {table}")
    assert set(findings(daemon).values()) == {None}
    own_cluster.sql("ALTER TABLE sessiond.sessions DROP COLUMN leases")
    assert advice(findings(daemon), "of another version")
    own_cluster.sql("DELETE FROM sessiond.meta")
    assert "from a backup" in (advice(findings(daemon), "names no version") or "")


def test_lines_that_no_row_counts_and_values_that_are_none_are_found(
    own_cluster: Cluster, tmp_path: Path, findings: Findings
) -> None:
    daemon = SharingDaemon(own_cluster.folder / "s.sock", tmp_path / "home", own_cluster.folder)
    with running(daemon), daemon.connect() as link:
        for session_id in ("my-session", "another-session"):
            link.ask("session/create", session_id=session_id, cwd="/p", persist="immediate")
            link.say(session_id, "one")
        link.ask("state/set", namespace="notes", key="a", value=1)
        link.ask("state/set", namespace="others", key="a", value=1)
        assert set(findings(daemon).values()) == {None}
    own_cluster.sql(
        "INSERT INTO sessiond.lines VALUES (1, 2, 'x');"
        " UPDATE sessiond.sessions SET seq = -5 WHERE number = 2;"
        " UPDATE sessiond.documents SET data = 'S3CRET' WHERE namespace = 'notes'"
    )
    found = findings(daemon)
    for name, number, seq in (("my-session", 1, 1), ("another-session", 2, -5)):
        then = advice(found, f"{name}: there are lines behind the last one") or ""
        assert f"number {number} and a seq above {seq}" in then
    assert "delete the row" in (advice(found, "namespace notes (sessiond_state)") or "")
    assert "S3CRET" not in str(found)
    # What is to be done makes all well.
    own_cluster.sql(
        "DELETE FROM sessiond.lines WHERE number = 1 AND seq > 1;"
        " UPDATE sessiond.sessions SET seq = 1 WHERE number = 2;"
        " DELETE FROM sessiond.documents WHERE namespace = 'notes'"
    )
    assert set(findings(daemon).values()) == {None}


def test_without_a_database_doctor_says_nothing_of_one(home: Path) -> None:
    run = subprocess.run([SESSIOND, "doctor", "--json"], capture_output=True, env=dict(os.environ))
    checks = json.loads(run.stdout)["checks"]
    assert checks
    assert [one for one in checks if one["check"] == "database"] == []
