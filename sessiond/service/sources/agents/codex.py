"""Rollouts of Codex, which may begin in another rollout, as the entries of a native file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sessiond.dialects.agents.codex import AGENT, CodexReading
from sessiond.dialects.agents.own_entries import USAGE_RECORD
from sessiond.dialects.agents.source_line import member
from sessiond.dialects.agents.transcript import Taken, Transcript
from sessiond.dialects.lenient_json import lenient, text
from sessiond.journal.store import SessionLog
from sessiond.model.entries import Opaque, SessionInfoEntry
from sessiond.service.sources.agents.copied import copied
from sessiond.service.sources.agents.source import BASE_IS_MISSING, AgentLog, Report
from sessiond.service.sources.agents.writing import Conversation

# Lines whose facts are elsewhere in a copy, and events that repeat items for people.
_USED: Final = frozenset({"session_meta", "turn_context"})
_REPEATED: Final = frozenset(
    {
        *("agent_message", "agent_reasoning", "agent_reasoning_raw_content", "item_completed"),
        *("item_started", "task_complete", "turn_complete", "context_compacted"),
        *("task_started", "turn_started", "user_message", "token_count"),
    }
)


def codex(log: AgentLog, report: Report, kept: SessionLog) -> Conversation:
    """Return the conversation of a rollout; `report` gets what has no place in it, `kept` the entries."""
    if log.beside.before is None:
        report.add(1, "orphan", BASE_IS_MISSING)
    reading = CodexReading()
    talk = copied(_records(log, reading, report), reading, report, codex_left_out, kept)
    if log.beside.title:
        talk.info = SessionInfoEntry(name=log.beside.title)
    return talk


def _records(log: AgentLog, reading: CodexReading, report: Report) -> Iterator[Taken]:
    """Yield the records of a rollout and of the rollouts before it.

    The first line says whose session this is, so the lines of other rollouts come behind that line.
    """
    transcript = Transcript(reading)
    own = report.entries(log, transcript)
    yield from (first for first in [next(own, None)] if first is not None)
    others = log.beside.before or list[list[bytes]]
    before = AgentLog(log.name, lambda: ((lines, False) for lines in others()))
    for taken in Report().entries(before, transcript):
        # What another file has beside the conversation is not missing in this copy.
        if not isinstance(taken.entry, Opaque) or taken.entry.type == USAGE_RECORD:
            yield taken
    yield from own


def codex_left_out(record: Opaque) -> str | None:
    """Return the name of the lines that became records of this type; None for lines of use."""
    kind, _, detail = record.type.removeprefix(f"{AGENT}.").partition(".")
    data = lenient(record.fields["data"])
    match kind:
        case "event_msg":
            return None if detail in _REPEATED else f"events of type {detail}"
        case "response_item":
            role = text((member(data, "payload") or data).get("role"))
            return f"items of type {detail}" + (f" ({role})" if role else "")
        case "none" if "id" in data:
            # The oldest rollouts have a first line without a type.
            return None
        case _ if kind in _USED:
            return None
        case _:
            return f"lines of type {kind}"
