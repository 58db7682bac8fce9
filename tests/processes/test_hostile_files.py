"""Foreign changes of a daemon's files: a locked, rewritten or damaged catalog, dangling paths."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from tests.kit.dice import SEED
from tests.kit.link import Link
from tests.processes.harness.daemon import Daemon

pytestmark = pytest.mark.slow


CATALOG: Final = "catalog.sqlite"
AS_OTHERS: Final[dict[str, Any]] = {"isolation_level": None, "timeout": 20}
"""Options with which another program opens the catalog."""


def make_sessions(link: Link) -> None:
    for name in ("a", "b"):
        link.create(session_id=f"session-{name}")
    link.create(session_id="session-m", persist="never")
    assert listed(link) == ["session-a", "session-b", "session-m"]


def listed(link: Link) -> list[str]:
    return sorted(session["id"] for session in link.ask("session/list")["sessions"])


@pytest.mark.parametrize("lock", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
def test_a_locked_catalog_holds_nobody_up(daemon: Daemon, lock: str) -> None:
    with daemon.connect() as link:
        make_sessions(link)
        with closing(sqlite3.connect(daemon.profile / CATALOG, **AS_OTHERS)) as other:
            other.execute(lock)
            link.say("session-a", "meanwhile")
            link.create(session_id="session-c")
            assert listed(link) == ["session-a", "session-b", "session-c", "session-m"]
            assert link.ask("server/stats")["catalog"]["in_memory"]
            assert listed(link) == ["session-a", "session-b", "session-c", "session-m"]
        assert listed(link) == ["session-a", "session-b", "session-c", "session-m"]
        assert not link.ask("server/stats")["catalog"]["in_memory"]
    with closing(sqlite3.connect(daemon.profile / CATALOG, **AS_OTHERS)) as other:
        assert other.execute("SELECT count(*) FROM sessions").fetchone() == (3,)


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE sessions",
        "DROP TABLE meta",
        "ALTER TABLE sessions RENAME TO others",
        "DELETE FROM sessions",
        "UPDATE sessions SET info = x'00ff'",
        "UPDATE sessions SET session_id = session_id || 'x'",
        "UPDATE meta SET value = 'a word'",
    ],
)
def test_a_catalog_that_another_program_wrote_to_is_made_again(
    daemon: Daemon, statement: str
) -> None:
    with daemon.connect() as link:
        make_sessions(link)
        with closing(sqlite3.connect(daemon.profile / CATALOG, **AS_OTHERS)) as other:
            other.execute(statement)
        assert listed(link) == ["session-a", "session-b", "session-m"]
        link.create(session_id="session-c")
        assert listed(link) == ["session-a", "session-b", "session-c", "session-m"]


@pytest.mark.parametrize("damage", ["fill", "truncate", "unlink", "become_folder"])
def test_a_damaged_catalog_costs_nothing_that_a_list_shows(daemon: Daemon, damage: str) -> None:
    with daemon.connect() as link:
        make_sessions(link)
        path = daemon.profile / CATALOG
        match damage:
            case "fill":
                path.write_bytes(random.Random(SEED).randbytes(100_000))
            case "truncate":
                os.truncate(path, 5000)
            case _:
                path.unlink()
        if damage == "become_folder":
            path.mkdir()
        assert listed(link) == ["session-a", "session-b", "session-m"]
        link.create(session_id="session-c")
        assert listed(link) == ["session-a", "session-b", "session-c", "session-m"]


def test_a_row_that_is_no_json_is_read_from_its_file_again(daemon: Daemon) -> None:
    with daemon.connect() as link:
        link.create(session_id="session-a")
        assert listed(link) == ["session-a"]
    daemon.end(signal.SIGTERM)
    with closing(sqlite3.connect(daemon.profile / CATALOG, **AS_OTHERS)) as other:
        other.execute("UPDATE sessions SET info = x'7b2261223a22ff227d'")
    daemon.start()
    with daemon.connect() as link:
        assert listed(link) == ["session-a"]


def test_an_import_of_a_pipe_is_refused_and_keeps_no_thread(daemon: Daemon, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with daemon.connect() as link:
        for path in (str(pipe), "/dev/zero"):
            assert link.refusal("session/import", path=path).data["errno"] == "EINVAL"
        assert listed(link) == []


def test_a_path_that_leads_nowhere_is_said_to(daemon: Daemon, tmp_path: Path) -> None:
    circle = tmp_path / "circle"
    circle.symlink_to(circle)
    with daemon.connect() as link:
        assert link.refusal("session/open", path=str(circle)).data["errno"] == "ELOOP"
        assert link.refusal("session/open", path="/a" * 500_000).kind == "invalid_params"
