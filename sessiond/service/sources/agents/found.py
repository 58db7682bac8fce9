"""The formats of other agents' sessions, and the format that a content has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from sessiond.dialects.agents import agent_of_lines
from sessiond.dialects.agents.gemini_cli import document_lines
from sessiond.journal.store import SessionLog
from sessiond.model.formats import AgentFormatName
from sessiond.service.sources.agents.claude_code import claude_code, claude_code_left_out
from sessiond.service.sources.agents.codex import codex, codex_left_out
from sessiond.service.sources.agents.copied import LeftOut
from sessiond.service.sources.agents.gemini_cli import gemini_cli, gemini_cli_left_out
from sessiond.service.sources.agents.inlining import inlined
from sessiond.service.sources.agents.opencode.copies import opencode, opencode_left_out
from sessiond.service.sources.agents.source import AgentLog, Report
from sessiond.service.sources.agents.writing import Conversation, native_lines


class AgentSession(Struct, frozen=True):
    """A file's format, and the work that makes the lines of a native file."""

    name: AgentFormatName
    log: AgentLog

    def lines(
        self, session_id: str, cwd: str | None, report: Report, kept: SessionLog
    ) -> Iterator[bytes]:
        """Return the lines of a native file; `report` gets what has no place in it, behind the last line.

        Reads the content now, and keeps its entries in an empty log, of which the lines are made.
        """
        talk = _WORK[self.name].conversation(self.log, report, kept)
        talk.steps = inlined(talk.steps, report, self.log.beside.outputs)
        return native_lines(talk, session_id, cwd)


def found_agent(log: AgentLog) -> AgentSession | None:
    """Return the agent's session that the lines of a content are; None for any other content."""
    agent = agent_of_lines(log.lines())
    return None if agent is None else AgentSession(agent.name, log)


def found_chat(log: AgentLog, content: bytes) -> AgentSession | None:
    """Return the session that an older Gemini CLI wrote as one document; None for any other content."""
    if document_lines(content) is None:
        return None

    def parts() -> Iterator[tuple[list[bytes], bool]]:
        for line in document_lines(content) or ():
            yield [line], False
            del line
        yield [], True

    return found_agent(AgentLog(log.name, parts, log.beside))


class _Work(Struct, frozen=True):
    """The work of a copy: what the lines of a file say, and the names of lines without a place."""

    conversation: Callable[[AgentLog, Report, SessionLog], Conversation]
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
