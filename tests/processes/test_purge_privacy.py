"""Purges: afterwards no file of the profile has a word of the session."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.kit.agent_roots import CLAUDE, claude_line
from tests.kit.patience import soon
from tests.processes.harness.daemon import Daemon

pytestmark = pytest.mark.slow

SECRETS = {"title": "confidential", "tags": ["undisclosed"], "cwd": "/unmentioned"}
WORDS = (b"confidential", b"undisclosed", b"unmentioned", b"whispered")


def files_with_words(daemon: Daemon) -> list[str]:
    return [
        path.name
        for path in daemon.home.rglob("*")
        if path.is_file() and any(word in path.read_bytes() for word in WORDS)
    ]


def test_a_purge_leaves_no_words_in_any_file(daemon: Daemon) -> None:
    with daemon.connect() as link:
        for name in ("session-a", "session-b"):
            link.ask("session/create", session_id=name, persist="immediate", **SECRETS)
            link.say(name, "whispered")
        assert len(link.ask("session/list")["sessions"]) == 2
        assert len(link.ask("session/search", query="whispered")["hits"]) == 2
        assert "catalog.sqlite-wal" in files_with_words(daemon)
        for name in ("session-a", "session-b"):
            link.ask("session/delete", session_id=name)
        link.ask("session/purge", session_id="session-a")
        assert files_with_words(daemon) != []
        link.ask("session/purge", session_id="session-b")
        assert files_with_words(daemon) == []
        assert link.ask("session/list")["sessions"] == []
    assert daemon.end(signal.SIGTERM) == 0
    assert files_with_words(daemon) == []


def test_words_of_a_file_that_its_program_removed_leave_the_index_behind_the_next_start(
    daemon: Daemon, tmp_path: Path
) -> None:
    path = tmp_path.resolve() / "claude" / "projects" / "-p" / f"{CLAUDE.format(1)}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(claude_line("c1a0de00-0000-4000-8000-00000000aaaa", None, "whispered"))

    def is_indexed() -> bool:
        return any(name.startswith("search.sqlite") for name in files_with_words(daemon))

    with daemon.connect() as link:
        link.ask("catalog/roots", action="add", path=str(path.parent.parent), kind="claude-code")
        assert len(link.ask("session/search", query="whispered")["hits"]) == 1
    assert is_indexed()
    path.unlink()
    daemon.restart()
    soon(lambda: not is_indexed())
