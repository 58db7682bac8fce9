"""Foreign changes of a daemon's files: a locked, rewritten or damaged catalog, dangling paths."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.kit.link import Link, Refused
from tests.processes.harness.daemon import Daemon

pytestmark = pytest.mark.slow


def catalog_of(daemon: Daemon) -> Path:
    return daemon.profile / "catalog.sqlite"


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the catalog as another program does."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=20)) as database:
        yield database


def make_sessions(link: Link) -> None:
    for name in ("a", "b"):
        link.ask("session/create", cwd="/p", session_id=f"session-{name}", persist="immediate")
    link.ask("session/create", cwd="/p", session_id="session-m", persist="never")
    assert listed(link) == ["session-a", "session-b", "session-m"]


def listed(link: Link) -> list[str]:
    return sorted(session["id"] for session in link.ask("session/list")["sessions"])


def stands_in(link: Link) -> bool:
    held: bool = link.ask("server/stats")["catalog"]["in_memory"]
    return held


@pytest.mark.parametrize("lock", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
def test_a_locked_catalog_holds_nobody_up(daemon: Daemon, lock: str) -> None:
    with daemon.connect() as link:
        make_sessions(link)
        with opened(catalog_of(daemon)) as other:
            other.execute(lock)
            link.say("session-a", "meanwhile")
            link.ask("session/create", cwd="/p", session_id="session-c", persist="immediate")
            assert listed(link) == ["session-a", "session-b", "session-c", "session-m"]
            assert stands_in(link)
            assert listed(link) == ["session-a", "session-b", "session-c", "session-m"]
        assert listed(link) == ["session-a", "session-b", "session-c", "session-m"]
        assert not stands_in(link)
    with opened(catalog_of(daemon)) as other:
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
        with opened(catalog_of(daemon)) as other:
            other.execute(statement)
        assert listed(link) == ["session-a", "session-b", "session-m"]
        link.ask("session/create", cwd="/p", session_id="session-c", persist="immediate")
        assert listed(link) == ["session-a", "session-b", "session-c", "session-m"]


def fill(path: Path) -> None:
    path.write_bytes(os.urandom(100_000))


def truncate(path: Path) -> None:
    os.truncate(path, 5000)


def become_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("damage", [fill, truncate, Path.unlink, become_folder])
def test_a_damaged_catalog_costs_nothing_that_a_list_shows(
    daemon: Daemon, damage: Callable[[Path], None]
) -> None:
    with daemon.connect() as link:
        make_sessions(link)
        damage(catalog_of(daemon))
        assert listed(link) == ["session-a", "session-b", "session-m"]
        link.ask("session/create", cwd="/p", session_id="session-c", persist="immediate")
        assert listed(link) == ["session-a", "session-b", "session-c", "session-m"]


def test_a_row_that_is_no_json_is_read_from_its_file_again(daemon: Daemon) -> None:
    with daemon.connect() as link:
        link.ask("session/create", cwd="/p", session_id="session-a", persist="immediate")
        assert listed(link) == ["session-a"]
    daemon.end(signal.SIGTERM)
    with opened(catalog_of(daemon)) as other:
        other.execute("UPDATE sessions SET info = x'7b2261223a22ff227d'")
    daemon.start()
    with daemon.connect() as link:
        assert listed(link) == ["session-a"]


def test_an_import_of_a_pipe_is_refused_and_keeps_no_thread(daemon: Daemon, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with daemon.connect() as link:
        for path in (str(pipe), "/dev/zero"):
            with pytest.raises(Refused) as refused:
                link.ask("session/import", path=path)
            assert refused.value.data["errno"] == "EINVAL"
        assert listed(link) == []


def test_a_path_that_leads_nowhere_is_said_to(daemon: Daemon, tmp_path: Path) -> None:
    circle = tmp_path / "circle"
    circle.symlink_to(circle)
    with daemon.connect() as link:
        with pytest.raises(Refused) as refused:
            link.ask("session/open", path=str(circle))
        assert refused.value.data["errno"] == "ELOOP"
        with pytest.raises(Refused) as refused:
            link.ask("session/open", path="/a" * 500_000)
        assert refused.value.kind == "invalid_params"
