"""Chats of Gemini CLI as the entries of a native file."""

from __future__ import annotations

from typing import Final

from sessiond.dialects.agents.gemini_cli import COPY, GeminiCliReading
from sessiond.dialects.agents.transcript import Transcript
from sessiond.journal.store import SessionLog
from sessiond.model.entries import Opaque
from sessiond.service.sources.agents.copied import copied
from sessiond.service.sources.agents.source import AgentLog, Report
from sessiond.service.sources.agents.writing import Conversation

# Operations whose facts are in other entries.
_USED: Final = frozenset({"$set", "$rewindTo", "metadata"})


def gemini_cli(log: AgentLog, report: Report, kept: SessionLog) -> Conversation:
    """Return the conversation of a file; `report` gets what has no place in it, `kept` the entries."""
    reading = GeminiCliReading()
    records = report.entries(log, Transcript(reading, log.behind))
    talk = copied(records, reading, report, gemini_cli_left_out, kept)
    talk.origin.cwd = log.beside.cwd or ""
    return talk


def gemini_cli_left_out(record: Opaque) -> str | None:
    """Return the name of the lines that became records of this type; None for lines of use."""
    word = record.type
    if word in _USED or word.startswith(COPY):
        return None
    return "lines of no known form" if word == "none" else f"messages of type {word}"
