"""Export as a state of Nova: one JSON document with the working state, without messages.

Law: a session that was imported from Nova gives equal JSON values, but for what has changed since:
each member that says what it said at the import stays as it was spelled.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import Raw

from sessiond.dialects.lenient_json import fields, items, join, lenient
from sessiond.model.row import Kind
from sessiond.model.times import rfc3339
from sessiond.service.exporting.export import Export
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.session_info import SessionInfo
from sessiond.service.log.state_info import StateInfo
from sessiond.service.sources.documents.nova import DOCUMENT, NovaState, nova_state

_encode: Final = msgspec.json.encode
_OTHERS: Final = "entries besides the working state were left out ({})"
_TITLE: Final = "the title was left out: Nova has none"
_STATE_KINDS: Final = frozenset({Kind.CUSTOM, Kind.INFO, Kind.LEAF, Kind.LABEL})
# Members that no change of a session changes.
_ORIGIN: Final = frozenset({"session_id", "created_at", "fork_parent_id"})


def nova_document(
    opened: OpenSession, info: SessionInfo, state: StateInfo, forks: int, *, tags: bool = True
) -> Export:
    """Return the document, with or without tags, and its notes. Raises StorageError for a line that cannot be read."""
    held = _held(opened)
    told = _told(opened, info, state, forks)
    if held:
        told = _overlaid(opened, held, told)
    given = {name: value for name, value in told.items() if value is not None}
    if not tags:
        given.pop("tags", None)
    members = {
        name: value if isinstance(value, Raw) else Raw(_encode(value))
        for name, value in given.items()
    }
    return Export(_pieces(join(members)), lambda: _notes(opened, info))


def _pieces(document: bytes) -> Iterator[bytes]:
    yield document + b"\n"


def _notes(opened: OpenSession, info: SessionInfo) -> list[str]:
    kinds = opened.session.kinds[1:]
    others = sum(kind != Kind.NONE and kind not in _STATE_KINDS for kind in kinds)
    notes = [_OTHERS.format(others)] if others else []
    return [*notes, _TITLE] if info.title else notes


def _held(opened: OpenSession) -> dict[str, Raw]:
    """Return the members of the document that the session was imported from; {} for another session."""
    seq = opened.session.state.set_at
    if not seq:
        return {}
    (line,) = opened.journal.read(seq, seq)
    data = lenient(fields(opened.dialect.wire(line)).get("data", b""))
    return lenient(data.get(DOCUMENT, b""))


def _told(opened: OpenSession, info: SessionInfo, state: StateInfo, forks: int) -> dict[str, Any]:
    """Return the members as they are now; None for a member that says nothing."""
    metrics = state.metrics
    return {
        "session_id": opened.session_id,
        "created_at": _naive(info.created_at),
        "last_updated": _naive(info.updated_at),
        "model": state.model,
        "agent_name": state.agent,
        "current_plan": state.plan,
        "key_decisions": [
            {
                "decision": one.decision,
                "rationale": one.rationale or "",
                "timestamp": _naive(one.timestamp or ""),
            }
            for one in state.decisions
        ],
        "latest_artifacts": state.artifacts,
        "tokens_used": state.tokens_used,
        "turn_count": state.turn_count,
        "tags": state.tags,
        "metrics": msgspec.to_builtins(metrics),
        "fork_parent_id": info.lineage.parent_id,
        "fork_count": forks,
        "pruned": state.pruned,
        "last_pruned_at": _naive(state.last_pruned_at or "") or None,
    }


def _overlaid(opened: OpenSession, held: dict[str, Raw], told: dict[str, Any]) -> dict[str, Any]:
    """Return the document with the members that say something else now."""
    was = nova_state(held)
    before = _before(was)
    made: dict[str, Any] = {**held}
    told["fork_count"] += was.fork_count
    if opened.session.state.set_at == opened.session.seq:
        # Nothing has been added since the import.
        told["last_updated"] = before["last_updated"]
    for name, value in told.items():
        if name in _ORIGIN or value == before.get(name):
            continue
        match name:
            case "key_decisions":
                made[name] = _decisions(held, before[name], value)
            case "metrics":
                made[name] = lenient(held.get(name, b"{}")) | _changed(value, before[name])
            case _:
                made[name] = value
    return made


def _before(was: NovaState) -> dict[str, Any]:
    """Return the members of a document as `_told` says them."""
    members: dict[str, Any] = msgspec.to_builtins(was)
    for name in ("created_at", "last_updated", "last_pruned_at"):
        members[name] = _naive(rfc3339(members[name])) if members[name] else None
    updated = members["last_updated"] or members["created_at"]
    members["last_updated"] = updated
    for one in members["key_decisions"]:
        stamp = one["timestamp"]
        one["timestamp"] = _naive(rfc3339(stamp)) if stamp else updated
        one["rationale"] = one["rationale"] or ""
    members["key_decisions"] = members["key_decisions"][-10:]
    members["tags"] = [*dict.fromkeys(members["tags"])]
    return members


def _decisions(held: dict[str, Raw], before: list[Any], now: list[Any]) -> list[Any]:
    """Return the decisions, each of the document as it was spelled there."""
    raws = (items(held.get("key_decisions", b"[]")) or [])[-len(before) :] if before else []
    known = [(one, raw) for one, raw in zip(before, raws, strict=True)]
    return [next((raw for one, raw in known if one == told), told) for told in now]


def _changed(now: dict[str, int], before: dict[str, int]) -> dict[str, Raw]:
    return {n: Raw(_encode(value)) for n, value in now.items() if value != before[n]}


def _naive(time: str) -> str:
    """Return a UTC time as Nova spells one, without an offset."""
    return time.removesuffix("Z")
