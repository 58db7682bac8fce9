"""Sessions of Claude Code: a tree of lines, as the entries of a native file."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET

from sessiond.dialects.agents.claude_code import ClaudeCode
from sessiond.dialects.agents.source_line import SourceLine
from sessiond.model.entries import Opaque, SessionInfoEntry
from sessiond.service.files.agents.copied import copied
from sessiond.service.files.agents.source import AgentLog, Report
from sessiond.service.files.agents.writing import Conversation

__all__ = ["claude_code", "is_claude_code"]

_TREE: Final = frozenset({"user", "assistant", "system", "attachment"})
# A boundary is part of its compaction, and these titles and leaves are not the last ones.
_USED: Final = frozenset({"system.compact_boundary", "last-prompt", "summary"})


def is_claude_code(first: list[SourceLine]) -> bool:
    """Return whether a file that begins with these lines is a session of Claude Code."""
    for line in first:
        kind, has_session = line.word("type"), line.word("sessionId") is not None
        if kind in _TREE and has_session and line.word("uuid"):
            return True
        if kind == "summary" and line.word("leafUuid"):
            return True
    return False


def claude_code(log: AgentLog, report: Report) -> Conversation:
    """Return the conversation of a file; `report` gets what has no place in it."""
    reading = ClaudeCode()
    talk = copied(report.entries(log, reading), reading, report, _left_out)
    if log.beside.title and (talk.info is None or talk.info.auto_title is UNSET):
        talk.info = talk.info or SessionInfoEntry()
        talk.info.auto_title = log.beside.title
    return talk


def _left_out(record: Opaque) -> str | None:
    """Return the name of the lines that became records of this type; None for lines of use."""
    word = record.type
    if word in _USED:
        return None
    if word.startswith("sidechain."):
        return "lines of type subagents"
    kind, _, detail = word.partition(".")
    return f"lines of type {kind} ({detail})" if detail else f"lines of type {kind}"
