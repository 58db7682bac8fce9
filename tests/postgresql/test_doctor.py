"""`sessiond doctor` on a database: each fault is said with what to do, and nothing is changed."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.postgresql.cluster import Cluster
from tests.postgresql.sharing_daemon import SharingDaemon
from tests.processes.harness.daemon import SESSIOND, running

pytestmark = pytest.mark.slow


def findings(daemon: SharingDaemon, **settings: str) -> dict[str, str | None]:
    """Return what doctor says of the database, and what to do."""
    run = subprocess.run(
        [SESSIOND, "doctor", "--json"],
        env={**daemon.environment, **settings},
        capture_output=True,
        text=True,
    )
    assert run.returncode in {0, 1}, run.stderr
    checks: list[dict[str, Any]] = json.loads(run.stdout)["checks"]
    found = [one for one in checks if one["check"] == "database"]
    assert all(one["ok"] == (one.get("next") is None) for one in found)
    return {one["what"]: one.get("next") for one in found}


def advice(found: dict[str, str | None], word: str) -> str | None:
    """Return what to do about the fact with this word."""
    (said,) = [then for what, then in found.items() if word in what]
    return said


def test_each_fault_is_found_and_nothing_is_changed(own_cluster: Cluster, tmp_path: Path) -> None:
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
        assert any("1 sessions" in what for what in well)
        assert any("notifications come through" in what for what in well)
    own_cluster.configure(fsync="off")
    assert "switch them on" in (advice(findings(daemon), "fsync") or "")
    own_cluster.configure(fsync=None)
    own_cluster.sql("DELETE FROM sessiond.lines WHERE seq = 1")
    damaged = findings(daemon)
    assert advice(damaged, "counts other lines") == "sessiond verify my-session"
    assert "S3CRET" not in str(damaged)
    own_cluster.sql("UPDATE sessiond.meta SET version = version + 1")
    assert "the sessiond that made" in (advice(findings(daemon), "later than") or "")
    own_cluster.kill()
    assert "start the server" in (advice(findings(daemon), "could not connect") or "")
    password = {"SESSIOND_STORE_PASSWORD_COMMAND": json.dumps(["false"])}
    assert "store_password_command" in (advice(findings(daemon, **password), "password") or "")


def test_without_a_database_doctor_says_nothing_of_one(home: Path) -> None:
    run = subprocess.run([SESSIOND, "doctor", "--json"], capture_output=True, env=dict(os.environ))
    checks = json.loads(run.stdout)["checks"]
    assert checks
    assert [one for one in checks if one["check"] == "database"] == []
