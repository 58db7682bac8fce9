"""Turns of an open session, read from its lines. Blocking, for worker threads, unless few bytes are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Raw

from sessiond.dialects.base import Dialect
from sessiond.dialects.lenient_json import fields, items, join, lenient, text
from sessiond.model.parsed_message import FAILED_STOPS, ParsedMessage
from sessiond.model.row import MESSAGE_KINDS, Kind
from sessiond.service.log.open_session import OpenSession
from sessiond.session.turns.boundaries import TurnSpan
from sessiond.session.turns.turn import ShownTurn, TurnEntry, make_turn

_SUMMARIES: Final = frozenset({int(Kind.BRANCH_SUMMARY), int(Kind.COMPACTION)})
_ERRORS: Final = ("errorMessage", "error_message", "error")
_NEEDED: Final = frozenset(MESSAGE_KINDS | _SUMMARIES | {Kind.CUSTOM_MESSAGE})


def read_turn(opened: OpenSession, span: TurnSpan, *, is_last: bool) -> ShownTurn:
    """Return the turn of these lines. Raises StorageError."""
    session = opened.session
    seqs = [seq for seq in span.seqs if session.kinds[seq] in _NEEDED]
    lines = opened.journal.read_many(seqs)
    return make_turn(_entries(opened, seqs, lines), is_last=is_last)


def answers_a_call(opened: OpenSession, seq: int) -> bool:
    """Return whether a message answers a tool call, as Anthropic spells results. Raises StorageError."""
    (line,) = opened.journal.read(seq, seq)
    if b"tool" not in line:
        return False
    message = opened.dialect.reading(line)
    return message is not None and message.is_result


def _entries(opened: OpenSession, seqs: Sequence[int], lines: Sequence[bytes]) -> list[TurnEntry]:
    session = opened.session
    return [
        turn_entry(opened.dialect, session.names[seq], session.kinds[seq], line)
        for seq, line in zip(seqs, lines, strict=True)
    ]


def turn_entry(dialect: Dialect, entry_id: str, kind: int, line: bytes) -> TurnEntry:
    """Return the part of a stored line that a turn needs. Raises BadLine."""
    members = fields(dialect.wire(line))
    entry = TurnEntry(
        id=entry_id,
        kind=kind,
        timestamp=dialect.timestamp(line),
        turn_status=text(members.get("turn_status")),
        started_at=text(members.get("started_at")),
        ended_at=text(members.get("ended_at")),
    )
    if "blocks" in members:
        entry.blocks = items(members["blocks"])
    if kind in _SUMMARIES:
        entry.summary = dialect.summary(line).text or ""
    elif kind == Kind.CUSTOM_MESSAGE:
        entry.message = _extensions_message(dialect, members)
    else:
        entry.message = dialect.reading(line)
    if entry.message is not None and entry.message.stop_reason in FAILED_STOPS:
        told = lenient(members.get("message", b""))
        entry.error = next((said for name in _ERRORS if (said := text(told.get(name)))), "")
    return entry


def _extensions_message(dialect: Dialect, members: dict[str, Raw]) -> ParsedMessage | None:
    """Return the content of an extension's message; None if the message is not to be shown."""
    if bytes(members.get("display", b"true")) == b"false":
        return None
    role = text(members.get("role")) or "user"
    word = b'"assistant"' if role == "assistant" else b'"user"'
    return dialect.read(join({"role": Raw(word), "content": members.get("content", Raw(b'""'))}))
