"""Folders of other agents: where they lie, by the environment and the user's home."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from sessiond.dialects.agents.places import AGENT_PLACES

HOMES: list[tuple[str, Mapping[str, str], list[str]]] = [
    ("claude-code", {}, ["/h/.claude/projects"]),
    ("claude-code", {"CLAUDE_CONFIG_DIR": "/c"}, ["/c/projects"]),
    ("codex", {}, ["/h/.codex/sessions", "/h/.codex/archived_sessions"]),
    ("codex", {"CODEX_HOME": "/c"}, ["/c/sessions", "/c/archived_sessions"]),
    ("gemini-cli", {}, ["/h/.gemini/tmp"]),
    ("gemini-cli", {"GEMINI_CLI_HOME": "/g"}, ["/g/.gemini/tmp"]),
    ("opencode", {}, ["/h/.local/share/opencode"]),
    ("opencode", {"XDG_DATA_HOME": "/d"}, ["/d/opencode"]),
    ("opencode", {"OPENCODE_DB": "/o/mine.db"}, ["/h/.local/share/opencode", "/o"]),
    ("opencode", {"OPENCODE_DB": "mine.db"}, ["/h/.local/share/opencode"]),
    ("opencode", {"OPENCODE_DB": ":memory:"}, ["/h/.local/share/opencode"]),
]


@pytest.mark.parametrize(("agent", "environ", "homes"), HOMES)
def test_the_folders_of_an_agent_follow_its_environment(
    agent: str, environ: Mapping[str, str], homes: list[str]
) -> None:
    assert AGENT_PLACES[agent].homes(environ, "/h") == homes


PATHS: list[tuple[str, str, bool]] = [
    ("gemini-cli", "p/chats/session-1.jsonl", True),
    ("gemini-cli", "p/chats/session-1.json", True),
    ("gemini-cli", "p/chats/parent/child.jsonl", True),
    ("gemini-cli", "p/chats/other.json", False),
    ("gemini-cli", "p/chats/parent/child.json", False),
    ("gemini-cli", "p/logs.json", False),
    ("opencode", "opencode.db/ses_1", True),
    ("opencode", "opencode-beta.db/ses_1", True),
    ("opencode", "storage/session/p/ses_1.json", True),
    ("opencode", "ses_1", True),
    ("opencode", "session/p/ses_1.json", True),
    ("opencode", "opencode.db/other", False),
    ("opencode", "storage/message/ses_1/msg_1.json", False),
    ("opencode", "storage/session/p/ses_1.json.tmp", False),
    ("opencode", "auth.json", False),
]


@pytest.mark.parametrize(("agent", "path", "is_session"), PATHS)
def test_a_path_tells_whether_it_may_be_a_session(agent: str, path: str, is_session: bool) -> None:
    assert AGENT_PLACES[agent].is_session(tuple(path.split("/"))) is is_session
