"""The search index is made by a real daemon from its start on, and goes on where a kill has cut it off."""

from __future__ import annotations

import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from sessiond.catalog.guarded import read_only
from tests.kit.journals import text
from tests.kit.lines import spelled
from tests.kit.link import Link
from tests.kit.patience import soon
from tests.kit.sessions import native_header, stored_message
from tests.processes.harness.daemon import Daemon, running

SESSIONS: Final = 300
SAID: Final = " ".join(f"word{number}" for number in range(2_000))


def rows(index: Path) -> dict[int, int]:
    """Return the number of the session of each row; a session that is read again gets other rows."""
    found = "SELECT row, number FROM entries"
    try:
        return dict(read_only(index, lambda one: one.execute(found).fetchall()))
    except (sqlite3.Error, OSError):
        return {}


@pytest.fixture
def daemon(tmp_path: Path, socket_path: Path) -> Daemon:
    """Return a daemon, which does not run yet, with sessions that no daemon has seen."""
    daemon = Daemon(socket_path, tmp_path / "data")
    daemon.home.mkdir(mode=0o700)
    folder = daemon.profile / "sessions"
    folder.mkdir(parents=True)
    for number in range(SESSIONS):
        said = [
            stored_message("e0", None, content=SAID),
            stored_message("e1", "e0", "assistant", content=f"needle {number}"),
        ]
        path = folder / f"2026-01-01T00-00-00-{number:06d}_{number:05d}-session.jsonl"
        path.write_bytes(text(spelled(native_header(f"{number:05d}-session", "/p"), *said)))
    return daemon


def sessions(index: Path) -> int:
    return len(set(rows(index).values()))


def at_once(link: Link) -> tuple[int, bool]:
    """Return the number of hits of a search that need not be whole, and whether it is."""
    found = link.ask("session/search", query="needle", whole=False)
    return len(found["hits"]), "looking" not in found


def test_an_index_that_a_kill_has_cut_off_is_not_begun_again(daemon: Daemon) -> None:
    index = daemon.profile / "search.sqlite"
    with running(daemon):
        daemon.connect().close()
        soon(lambda: sessions(index) > 10)
        daemon.kill()
        before = rows(index)
        assert 0 < sessions(index) < SESSIONS
        daemon.start()
        with daemon.connect() as link:
            # No search has asked for it.
            soon(lambda: sessions(index) == SESSIONS)
            assert before.items() <= rows(index).items()
            soon(lambda: at_once(link) == (SESSIONS, True))


def test_an_older_index_answers_until_todays_is_made_whatever_is_killed(daemon: Daemon) -> None:
    index = daemon.profile / "search.sqlite"
    beside = index.with_name("search.sqlite.next")
    with running(daemon):
        daemon.connect().close()
        soon(lambda: sessions(index) == SESSIONS)
        daemon.end(signal.SIGTERM)
        with closing(sqlite3.connect(index)) as older:
            older.execute("PRAGMA user_version = 69000")
        older_file = index.stat().st_ino
        daemon.start()
        with daemon.connect() as link:
            soon(lambda: sessions(beside) > 10)
            assert at_once(link)[0] == SESSIONS
        daemon.kill()
        before = rows(beside)
        assert 0 < sessions(beside) < SESSIONS
        assert index.stat().st_ino == older_file
        daemon.start()
        with daemon.connect() as link:
            assert at_once(link)[0] == SESSIONS
            soon(lambda: index.stat().st_ino != older_file)
            assert before.items() <= rows(index).items()
            assert sessions(index) == SESSIONS
            assert not beside.exists()
            soon(lambda: at_once(link) == (SESSIONS, True))
