"""The search index is made by a real daemon from its start on, and goes on where a kill has cut it off."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

from sessiond.catalog.guarded import read_only
from tests.kit.journals import text
from tests.kit.lines import spelled
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


def test_an_index_that_a_kill_has_cut_off_is_not_begun_again(
    tmp_path: Path, socket_path: Path
) -> None:
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
    index = daemon.profile / "search.sqlite"
    with running(daemon):
        daemon.connect().close()
        soon(lambda: len(rows(index)) > 10)
        daemon.kill()
        before = rows(index)
        assert 0 < len(set(before.values())) < SESSIONS
        daemon.start()
        with daemon.connect() as link:
            # No search has asked for it.
            soon(lambda: len(set(rows(index).values())) == SESSIONS)
            assert before.items() <= rows(index).items()
            found = link.ask("session/search", query="needle", whole=False)
            assert (len(found["hits"]), found.get("looking")) == (SESSIONS, None)
