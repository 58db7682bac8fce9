"""The formats of other agents' sessions, and the format that a content has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct, structs

from sessiond.dialects.agents.source_line import SourceLine
from sessiond.dialects.lenient_json import lenient
from sessiond.model.formats import AgentFormatName
from sessiond.service.files.agents.claude_code import claude_code, is_claude_code
from sessiond.service.files.agents.codex import codex, is_codex
from sessiond.service.files.agents.gemini_cli import document_lines, gemini_cli, is_gemini_cli
from sessiond.service.files.agents.source import AgentLog, Report
from sessiond.service.files.agents.writing import Conversation, native_lines

__all__ = ["AgentSession", "found_agent"]

# Some lines before the first message tell nothing, and some are damaged.
_LINES_TRIED: Final = 50


class AgentSession(Struct, frozen=True):
    """A file's format, and the work that makes the lines of a native file."""

    name: AgentFormatName
    log: AgentLog

    def lines(self, session_id: str, cwd: str | None, report: Report) -> list[bytes]:
        """Return the lines of a native file; `report` gets what has no place in it."""
        read = _FORMATS[self.name][1]
        return native_lines(read(self.log, report), session_id, cwd)


def found_agent(log: AgentLog) -> AgentSession | None:
    """Return the agent's session that a content is; None for any other content."""
    if log.lines and not lenient(log.lines[0]):
        log = _as_lines(log)
    part = AgentLog(log.name, log.lines[:_LINES_TRIED], b"" if log.lines else log.tail)
    first: list[SourceLine] = list(Report().objects(part))
    for name, (is_mine, _) in _FORMATS.items():
        if is_mine(first):
            return AgentSession(name, log)
    return None


def _as_lines(log: AgentLog) -> AgentLog:
    """Return the lines of a session that an older Gemini CLI wrote as one document."""
    lines = document_lines(b"\n".join((*log.lines, log.tail)))
    return log if lines is None else structs.replace(log, lines=lines, tail=b"")


_FORMATS: Final[
    Mapping[
        AgentFormatName,
        tuple[Callable[[list[SourceLine]], bool], Callable[[AgentLog, Report], Conversation]],
    ]
] = {
    "claude-code": (is_claude_code, claude_code),
    "codex": (is_codex, codex),
    "gemini-cli": (is_gemini_cli, gemini_cli),
}
