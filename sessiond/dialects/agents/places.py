"""Places of other agents' session files: where they lie, and which names are sessions.

Law: pure, and one row of `AGENT_PLACES` for each agent. A place in a folder is the tuple of the names
that lead there from the agent's folder; the row says which folders and which files count. A session
of opencode is a row of a database: the place of the row is that of the database and the session's id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct

Environ = Mapping[str, str]
Parts = tuple[str, ...]

_UUID_CHARS: Final = 36
_HEX: Final = frozenset("0123456789abcdefABCDEF-")
_DAY_LEVELS: Final = 3
_ROLLOUT: Final = "rollout-"
_ROW: Final = "ses_"

DATABASE_SUFFIX: Final = ".db"
"""Ending of a database, which stands for a folder: its sessions are the files there."""


class AgentPlaces(Struct, frozen=True):
    """The places of one agent's files."""

    homes: Callable[[Environ, str], Sequence[str]]
    """The folders of this agent, from the environment and the user's home."""
    is_folder: Callable[[Parts], bool]
    """True for a folder below such a folder that may lead to sessions."""
    is_session: Callable[[Parts], bool]
    """True for a file that may be a session."""
    has_databases: bool = False
    """True if a database is such a folder, whose sessions are its rows."""


def agent_places(kind: str) -> AgentPlaces | None:
    """Return the places of an agent; None for a dialect."""
    return AGENT_PLACES.get(kind)


def preference(folder: str, name: str) -> tuple[bool, tuple[int, ...], str]:
    """Return a key by which the file sorts first that has most of a session.

    Codex goes on in new segments, moves sessions into an archive, and compresses old ones. Gemini CLI
    and opencode go on with a session of an older version in a new place.
    """
    is_old = folder == "archived_sessions" or name.endswith((".zst", ".json"))
    letters = map(ord, name) if name.startswith(_ROLLOUT) else ()
    return is_old, tuple(-letter for letter in letters), name


def _is_uuid(name: str) -> bool:
    return len(name) == _UUID_CHARS and _HEX.issuperset(name)


# -- Claude Code -----------------------------------------------------------------------------------


def _claude_homes(environ: Environ, home: str) -> Sequence[str]:
    return [f"{environ.get('CLAUDE_CONFIG_DIR') or f'{home}/.claude'}/projects"]


def _is_claude_folder(parts: Parts) -> bool:
    match parts:
        case (_,):
            return True
        case (_, session):
            return _is_uuid(session)
        case (_, _, *below):
            return below[0] == "subagents"
        case _:
            return False


def _is_claude_session(parts: Parts) -> bool:
    stem = parts[-1].removesuffix(".jsonl")
    if stem == parts[-1]:
        return False
    is_main = len(parts) <= len(("project", "file")) and _is_uuid(stem)
    return is_main or (stem.startswith("agent-") and parts[0] != stem)


# -- Codex -----------------------------------------------------------------------------------------


def _codex_homes(environ: Environ, home: str) -> Sequence[str]:
    codex = environ.get("CODEX_HOME") or f"{home}/.codex"
    return [f"{codex}/sessions", f"{codex}/archived_sessions"]


def _is_codex_folder(parts: Parts) -> bool:
    return len(parts) <= _DAY_LEVELS and parts[-1].isdigit()


def _is_codex_session(parts: Parts) -> bool:
    name = parts[-1]
    return name.startswith(_ROLLOUT) and name.endswith((".jsonl", ".jsonl.zst"))


# -- Gemini CLI ------------------------------------------------------------------------------------


def _gemini_homes(environ: Environ, home: str) -> Sequence[str]:
    return [f"{environ.get('GEMINI_CLI_HOME') or home}/.gemini/tmp"]


def _is_gemini_folder(parts: Parts) -> bool:
    match parts:
        case (_,) | (_, "chats") | (_, "chats", _):
            return True
        case _:
            return False


def _is_gemini_session(parts: Parts) -> bool:
    match parts:
        case (_, "chats", name):
            return name.startswith("session-") and name.endswith((".jsonl", ".json"))
        case (_, "chats", _, name):
            return name.endswith(".jsonl")
        case _:
            return False


# -- opencode --------------------------------------------------------------------------------------


def _opencode_homes(environ: Environ, home: str) -> Sequence[str]:
    data = f"{environ.get('XDG_DATA_HOME') or f'{home}/.local/share'}/opencode"
    folder, _, name = environ.get("OPENCODE_DB", "").rpartition("/")
    # A relative path starts in the usual folder.
    return [data, folder] if folder.startswith("/") and name.endswith(DATABASE_SUFFIX) else [data]


def _is_opencode_folder(parts: Parts) -> bool:
    match parts:
        case (name,):
            return name in {"storage", "session"} or name.endswith(DATABASE_SUFFIX)
        case ("storage", "session") | ("session", _) | ("storage", "session", _):
            return True
        case _:
            return False


def _is_opencode_session(parts: Parts) -> bool:
    match parts:
        case (name,):
            # The root may be the database itself.
            return _is_row(name)
        case (database, name) if database.endswith(DATABASE_SUFFIX):
            return _is_row(name)
        case (*_, "session", _, name):
            return name.startswith(_ROW) and name.endswith(".json")
        case _:
            return False


def _is_row(name: str) -> bool:
    return name.startswith(_ROW) and "." not in name


AGENT_PLACES: Final[Mapping[str, AgentPlaces]] = {
    "claude-code": AgentPlaces(_claude_homes, _is_claude_folder, _is_claude_session),
    "codex": AgentPlaces(_codex_homes, _is_codex_folder, _is_codex_session),
    "gemini-cli": AgentPlaces(_gemini_homes, _is_gemini_folder, _is_gemini_session),
    "opencode": AgentPlaces(
        _opencode_homes, _is_opencode_folder, _is_opencode_session, has_databases=True
    ),
}

_HOMES: Final = [home for one in AGENT_PLACES.values() for home in one.homes({}, "")]
FOLDERS_OF_AGENTS: Final[tuple[str, ...]] = tuple(
    dict.fromkeys([home.rpartition("/")[2] for home in _HOMES] + [home[1:] for home in _HOMES])
)
"""The folders with sessions below an agent's own folder, and below the folder of a user."""
