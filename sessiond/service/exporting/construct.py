"""Export as a session of Construct: one JSON document with the turns of main's path.

Law: a session that was imported from Construct gives equal JSON values, but for what was added since.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

import msgspec
from msgspec import Raw, UnsetType

from sessiond.dialects.lenient_json import fields, items, join, lenient, text
from sessiond.model.times import rfc3339
from sessiond.service.exporting.converting import Standing
from sessiond.service.exporting.export import Export
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.turn_reader import answers_a_call, read_turn
from sessiond.service.ports import Progress
from sessiond.session.turns.boundaries import TurnSpan, turns_down

_encode: Final = msgspec.json.encode
_TITLE: Final = "the title was left out: in Construct it stands in index.json, not in the session"
_OTHERS: Final = "entries outside main's path were left out ({})"
_DERIVED: Final = "turns without stored blocks were made of messages ({})"


def construct_document(opened: OpenSession, at: Standing, progress: Progress) -> Export:
    """Return the document and its notes. The pieces may raise StorageError."""
    notes: list[str] = []
    return Export(_pieces(opened, at, progress, notes), lambda: notes)


def _pieces(
    opened: OpenSession, at: Standing, progress: Progress, notes: list[str]
) -> Iterator[bytes]:
    session = opened.session
    path = session.path(at.leaf)
    held = _held(opened)
    members = _members(opened, held, at)
    yield join(members)[:-1] + (b"," if members else b"") + b'"turns":['
    comma, derived = b"", 0
    for span in turns_down(session, path, partial(answers_a_call, opened)):
        made, is_derived = _turn(opened, span, is_last=span.last == at.leaf)
        derived += is_derived
        yield comma + made
        comma = b","
        progress.report(span.last + 1, at.upto + 1, "lines")
    yield b"]}\n"
    others = sum(map(session.is_node, range(1, at.upto + 1))) - len(path)
    if at.title and held is None:
        notes.append(_TITLE)
    if others:
        notes.append(_OTHERS.format(others))
    if derived:
        notes.append(_DERIVED.format(derived))
    progress.report(at.upto + 1, at.upto + 1, "lines")


def _held(opened: OpenSession) -> dict[str, Raw] | None:
    """Return the members of the document that the session was imported from."""
    metadata = opened.header.metadata
    if isinstance(metadata, UnsetType):
        return None
    held = lenient(metadata).get("construct")
    return None if held is None else lenient(held)


def _has_grown(held: dict[str, Raw], upto: int) -> bool:
    """Return whether there are more entries than the import wrote."""
    return bytes(held.get("entries", b"")) != b"%d" % upto


def _members(opened: OpenSession, held: dict[str, Raw] | None, at: Standing) -> dict[str, Raw]:
    """Return the members of the document beside its turns."""
    session = opened.session
    updated = session.updated_at or opened.created_at
    agent = session.facts.get("agent", opened.header.agent)
    if held is None:
        told = {
            "id": opened.session_id,
            "agent_id": agent or "",
            "created_at": opened.created_at,
            "updated_at": updated,
        }
        return {name: Raw(_encode(value)) for name, value in told.items()}
    changed = lenient(held.get("document", b""))
    if "agent" in session.fact_seqs:
        changed["agent_id"] = Raw(_encode(agent or ""))
    if _has_grown(held, at.upto):
        before = rfc3339(text(changed.get("updated_at")))
        changed["updated_at"] = Raw(_encode(max(before, updated)))
    return changed


def _turn(opened: OpenSession, span: TurnSpan, *, is_last: bool) -> tuple[bytes, bool]:
    """Return a turn as JSON, and whether it was made of messages without stored blocks."""
    turn = read_turn(opened, span, is_last=is_last)
    line = fields(opened.dialect.wire(*opened.journal.read(span.first, span.first)))
    kept = lenient(lenient(line.get("message", b"")).get("construct", b""))
    lacks = {text(name) for name in items(kept.get("lacks", b"")) or ()}
    members = lenient(kept["turn"]) if "turn" in kept else _turn_facts(turn.id, turn.timestamp)
    made = {
        "status": Raw(_encode(turn.status)),
        "request": Raw(_encode(turn.request)),
        "response": Raw(_encode(turn.response)),
    }
    for name, value in made.items():
        is_empty = bytes(value) == b"[]" or (name == "status" and "turn" in kept)
        if name not in members and not (name in lacks and is_empty):
            members[name] = value
    return join(members), "turn" not in kept and "blocks" not in line


def _turn_facts(turn_id: str, timestamp: str) -> dict[str, Raw]:
    return {"id": Raw(_encode(turn_id)), "timestamp": Raw(_encode(timestamp))}
