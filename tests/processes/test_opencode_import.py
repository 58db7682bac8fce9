"""`sessiond import` takes all sessions of a store of opencode, or the one that is named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.kit.opencode import (
    BEGAN,
    FOOTER,
    TREE,
    database,
    text,
    with_message,
    with_session,
)
from tests.processes.harness.shell import Shell

pytestmark = pytest.mark.slow


def store(folder: Path) -> None:
    """Make a store with the session of the sample, a subagent of the session, and two that fail."""
    folder.mkdir()
    sql: list[Any] = [with_session("ses_a", parent_id=FOOTER, time_created=BEGAN - 5)]
    sql += with_message("ses_a", "msg_a", 1, {"role": "user"}, text("look"))
    sql += [with_session(name, title="New session - now") for name in ("ses_e", "ses_f")]
    database(folder / "opencode.db", sql=sql)


def outcome(shell: Shell, command: str) -> dict[str, list[str]]:
    """Run an import; return the ids at the source by what became of them."""
    found = json.loads(shell.run(f"{command} --json").stdout)
    return {what: [one["source_id"] for one in found[what]] for what in found}


def test_all_sessions_of_a_store_are_imported_parents_first(shell: Shell) -> None:
    store(shell.folder / "data")
    shutil.copytree(TREE / "storage", shell.folder / "data" / "storage")
    failed = ["ses_e", "ses_f"]
    # The tree has what the database had before, so its session is here already.
    first = {"imported": [FOOTER, "ses_a"], "skipped": [FOOTER], "failed": failed}
    assert outcome(shell, "sessiond import data --dry-run") == first
    assert outcome(shell, "sessiond import data") == first
    again = {"imported": [], "skipped": [FOOTER, "ses_a"], "failed": failed}
    assert outcome(shell, "sessiond import data/opencode.db") == again
    said = shell.run("sessiond import data/opencode.db").stderr
    assert f"skipped data/opencode.db {FOOTER}: its session is here already" in said
    assert "data/opencode.db ses_e: " in said
    params = json.dumps({"agent": "opencode", "subagents": True})
    done = shell.run(f"sessiond call session/list '{params}' --json")
    listed = {one["lineage"]["header_id"]: one for one in json.loads(done.stdout)["sessions"]}
    assert listed["ses_a"]["lineage"]["parent_id"] == listed[FOOTER]["id"]


def test_one_session_of_a_store_is_imported(shell: Shell) -> None:
    store(shell.folder / "data")
    one = "sessiond import data/opencode.db --source-id"
    taken = {"imported": ["ses_a"], "skipped": [], "failed": []}
    assert outcome(shell, f"{one} ses_a") == taken
    # Named by itself, a session is copied again.
    assert outcome(shell, f"{one} ses_a") == taken
    done = shell.run(f"{one} ses_9")
    assert done.returncode == 1
    assert "data/opencode.db ses_9" in done.stderr
