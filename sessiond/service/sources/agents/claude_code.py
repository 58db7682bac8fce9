"""Sessions of Claude Code: a tree of lines, as the entries of a native file."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET

from sessiond.dialects.agents.claude_code import ClaudeCodeReading
from sessiond.dialects.agents.transcript import Transcript
from sessiond.journal.store import SessionLog
from sessiond.model.entries import Opaque, SessionInfoEntry
from sessiond.service.sources.agents.copied import copied
from sessiond.service.sources.agents.source import AgentLog, Report
from sessiond.service.sources.agents.writing import Conversation

# A boundary is part of its compaction, and these titles and leaves are not the last ones.
_USED: Final = frozenset({"system.compact_boundary", "last-prompt", "summary"})


def claude_code(log: AgentLog, report: Report, kept: SessionLog) -> Conversation:
    """Return the conversation of a file; `report` gets what has no place in it, `kept` the entries."""
    reading = ClaudeCodeReading()
    records = report.entries(log, Transcript(reading, log.behind))
    talk = copied(records, reading, report, claude_code_left_out, kept)
    if log.beside.title and (talk.info is None or talk.info.auto_title is UNSET):
        talk.info = talk.info or SessionInfoEntry()
        talk.info.auto_title = log.beside.title
    return talk


def claude_code_left_out(record: Opaque) -> str | None:
    """Return the name of the lines that became records of this type; None for lines of use."""
    word = record.type
    if word in _USED:
        return None
    if word.startswith("sidechain."):
        return "lines of type subagents"
    kind, _, detail = word.partition(".")
    return f"lines of type {kind} ({detail})" if detail else f"lines of type {kind}"
