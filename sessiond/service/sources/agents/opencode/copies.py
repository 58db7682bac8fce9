"""Sessions of opencode, by the lines that stand for them, as the entries of a native file."""

from __future__ import annotations

from typing import Final

from sessiond.dialects.agents.opencode import AGENT, OpencodeReading
from sessiond.dialects.agents.transcript import Transcript
from sessiond.journal.store import SessionLog
from sessiond.model.entries import Opaque
from sessiond.service.log.session_info import Lineage
from sessiond.service.sources.agents.copied import copied
from sessiond.service.sources.agents.source import AgentLog, Report
from sessiond.service.sources.agents.writing import Conversation

# Lines whose facts are in other entries.
_USED: Final = frozenset({"session", "compaction"})


def opencode(log: AgentLog, report: Report, kept: SessionLog) -> Conversation:
    """Return the conversation of a session; `report` gets what has no place in it, `kept` the entries."""
    reading = OpencodeReading()
    records = report.entries(log, Transcript(reading, log.behind))
    talk = copied(records, reading, report, opencode_left_out, kept)
    origin = talk.origin
    parent_id = log.beside.parent_id or origin.parent_id
    talk.lineage = Lineage(parent_id=parent_id, subagent=origin.is_subagent)
    return talk


def opencode_left_out(record: Opaque) -> str | None:
    """Return the name of the lines that became records of this type; None for lines of use."""
    word = record.type.removeprefix(f"{AGENT}.")
    if word in _USED:
        return None
    kind, _, detail = word.partition(".")
    match kind:
        case "message" | "step" if detail.endswith(".error"):
            return "answers that failed"
        case "message" | "step":
            return f"messages of type {detail}"
        case "row":
            return f"rows of type {detail}"
        case "revert":
            return "reverts to a message that is not there"
        case _:
            return "lines of no known form"
