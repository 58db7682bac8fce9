"""The formats of other agents' sessions, and the format that a content has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct, structs

from sessiond.dialects.agents import agent_of_lines
from sessiond.dialects.agents.gemini_cli import document_lines
from sessiond.dialects.lenient_json import lenient
from sessiond.model.formats import AgentFormatName
from sessiond.service.sources.agents.claude_code import claude_code, claude_code_left_out
from sessiond.service.sources.agents.codex import codex, codex_left_out
from sessiond.service.sources.agents.copied import LeftOut
from sessiond.service.sources.agents.gemini_cli import gemini_cli, gemini_cli_left_out
from sessiond.service.sources.agents.inlining import inline
from sessiond.service.sources.agents.opencode.copies import opencode, opencode_left_out
from sessiond.service.sources.agents.source import AgentLog, Report
from sessiond.service.sources.agents.writing import Conversation, native_lines

__all__ = ["AgentSession", "found_agent", "left_out"]


class AgentSession(Struct, frozen=True):
    """A file's format, and the work that makes the lines of a native file."""

    name: AgentFormatName
    log: AgentLog

    def lines(self, session_id: str, cwd: str | None, report: Report) -> list[bytes]:
        """Return the lines of a native file; `report` gets what has no place in it."""
        talk = _WORK[self.name].conversation(self.log, report)
        inline(talk, report, self.log.beside.outputs)
        return native_lines(talk, session_id, cwd)


def found_agent(log: AgentLog) -> AgentSession | None:
    """Return the agent's session that a content is; None for any other content."""
    if log.lines and not lenient(log.lines[0]):
        log = _as_lines(log)
    agent = agent_of_lines(log.lines or [log.tail])
    return None if agent is None else AgentSession(agent.name, log)


def _as_lines(log: AgentLog) -> AgentLog:
    """Return the lines of a session that an older Gemini CLI wrote as one document."""
    lines = document_lines(b"\n".join((*log.lines, log.tail)))
    return log if lines is None else structs.replace(log, lines=list(lines), tail=b"")


class _Work(Struct, frozen=True):
    """The work of a copy: what the lines of a file say, and the names of lines without a place."""

    conversation: Callable[[AgentLog, Report], Conversation]
    left_out: LeftOut


def left_out(name: str) -> LeftOut:
    """Return the names of the lines of an agent's files that have no place in a native session."""
    return _WORK[name].left_out


_WORK: Final[Mapping[str, _Work]] = {
    "claude-code": _Work(claude_code, claude_code_left_out),
    "codex": _Work(codex, codex_left_out),
    "gemini-cli": _Work(gemini_cli, gemini_cli_left_out),
    "opencode": _Work(opencode, opencode_left_out),
}
