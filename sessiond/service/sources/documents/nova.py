"""States of Nova: one JSON document without messages, read as the entries of a native file.

Law: nothing of a document is lost. Its decisions and artifacts become entries, its counts one
`sessiond.state` entry, which keeps the document too. So an export gives equal JSON values.

    {"session_id":"4f1d…","created_at":"2026-01-10T08:00:00.123456","last_updated":"…","model":"m-1",
     "key_decisions":[{"decision":"…","rationale":"…","timestamp":"…"}],"latest_artifacts":{"n":"p"},
     "tokens_used":4200,"turn_count":3,"tags":["x"],"metrics":{"task_count":3},"pruned":false}
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Raw, Struct

from sessiond.dialects.base import BadLine
from sessiond.dialects.lenient_json import fields, is_null, one_line, require_readable
from sessiond.dialects.native.dialect import NATIVE
from sessiond.model.digests import sha256_hex
from sessiond.model.entries import Custom, Entry, Header, SessionInfoEntry
from sessiond.model.ids import derive_entry_id, is_session_id
from sessiond.model.integers import IntegerDecoder
from sessiond.model.times import rfc3339
from sessiond.model.working.entries import (
    ARTIFACT,
    DECISION,
    STATE,
    BadState,
    Count,
    StateSet,
    state_effect,
)
from sessiond.model.working.state import WorkingState
from sessiond.service.sources.documents.refusal import corrupt

DOCUMENT: Final = "nova"
"""Member of a `sessiond.state` entry's data that holds the document."""
_OWN: Final = ("key_decisions", "latest_artifacts", "turn_count", "tokens_used", "fork_count")
_encode: Final = msgspec.json.encode


class NovaDecision(Struct, frozen=True):
    """A key decision of a document."""

    decision: str
    rationale: str | None = None
    timestamp: str | None = None


class NovaMetrics(Struct, frozen=True):
    """The metrics of a document that have a meaning here."""

    decision_count: Count = 0
    total_tokens: Count = 0
    task_count: Count = 0


class NovaState(Struct, frozen=True):
    """The members of a document that have a meaning here."""

    session_id: Annotated[str, Meta(min_length=1)]
    created_at: str
    last_updated: str | None = None
    model: str | None = None
    agent_name: str | None = None
    current_plan: str | None = None
    key_decisions: list[NovaDecision] = []
    latest_artifacts: dict[str, str] = {}
    tokens_used: Count = 0
    turn_count: Count = 0
    tags: list[str] = []
    metrics: NovaMetrics = NovaMetrics()
    fork_parent_id: str | None = None
    fork_count: Count = 0
    pruned: bool = False
    last_pruned_at: str | None = None


_state: Final[IntegerDecoder[NovaState]] = IntegerDecoder(NovaState)
_MISSING: Final = "Object missing required field `"


def nova_members(content: bytes) -> dict[str, Raw] | None:
    """Return the members of a document of Nova; None for any other content."""
    if content.lstrip()[:1] != b"{":
        return None
    try:
        members = fields(content)
    except BadLine:
        return None
    is_begun = {"created_at", "last_updated"} <= members.keys()
    is_nova = "session_id" in members and (is_begun or any(name in members for name in _OWN))
    return members if is_nova and "type" not in members else None


def nova_state(members: dict[str, Raw]) -> NovaState:
    """Return the known members of a document; null counts as left out. Raises DecodeError."""
    known = NovaState.__struct_fields__
    given = {n: raw for n, raw in members.items() if n in known and not is_null(raw)}
    return _state.decode(_encode(given))


def nova_lines(name: str, content: bytes, session_id: str, cwd: str | None) -> list[bytes]:
    """Return the lines of a native file with the state of the document. Raises SessionCorrupt."""
    try:
        require_readable(content)
        members = fields(content)
        found = nova_state(members)
    except (BadLine, RecursionError) as bad:
        raise corrupt(name, str(bad)) from None
    except msgspec.DecodeError as error:
        raise corrupt(name, _in_words(error)) from None
    created = _time(name, "created_at", found.created_at)
    updated = created if found.last_updated is None else found.last_updated
    making = _Making(name, found.session_id, _time(name, "last_updated", updated))
    if found.current_plan is not None:
        making.put(SessionInfoEntry(plan=found.current_plan), making.now)
    for at, one in enumerate(found.key_decisions):
        place = f"key_decisions[{at}].timestamp"
        time = making.now if one.timestamp is None else _time(name, place, one.timestamp)
        data = {"decision": one.decision, "rationale": one.rationale}
        making.state(DECISION, data, time, f"key_decisions[{at}]")
    for artifact, path in found.latest_artifacts.items():
        making.state(ARTIFACT, {"name": artifact, "path": path}, making.now, "latest_artifacts")
    making.state(
        STATE, _whole(name, found, making) | {DOCUMENT: Raw(one_line(content))}, making.now
    )
    header = Header(
        version=1,
        id=session_id,
        timestamp=created,
        cwd=cwd or "/",
        agent=found.agent_name,
        model=found.model,
        tags=[*dict.fromkeys(found.tags)] or None,
        lineage=_lineage(found),
    )
    return [NATIVE.encode_header(header), *making.lines]


def _whole(name: str, found: NovaState, making: _Making) -> dict[str, Any]:
    """Return the whole state as data, with the decisions and artifacts that were put before."""
    pruned_at = found.last_pruned_at
    stated = StateSet(
        decisions=making.now_is.decisions,
        artifacts=making.now_is.artifacts,
        tokens_used=found.tokens_used,
        # Nova counts all tokens of a session that was never pruned, and prunes once.
        tokens_since_prune=0 if found.pruned else found.tokens_used,
        total_tokens=found.metrics.total_tokens,
        turn_count=found.turn_count,
        task_count=found.metrics.task_count,
        decision_count=found.metrics.decision_count,
        pruned=found.pruned,
        last_pruned_at=None if pruned_at is None else _time(name, "last_pruned_at", pruned_at),
    )
    return msgspec.to_builtins(stated)  # type: ignore[no-any-return]


def _lineage(found: NovaState) -> Raw:
    parent, lineage = found.fork_parent_id, {"header_id": found.session_id}
    if parent is not None and is_session_id(parent):
        lineage["parent_id"] = parent
    return Raw(_encode(lineage))


class _Making:
    """The lines so far, one below the other, and the state that they make."""

    def __init__(self, name: str, document_id: str, now: str) -> None:
        self.lines: list[bytes] = []
        self.now = now
        self.now_is = WorkingState()
        self._name = name
        self._document_id = document_id
        self._leaf: str | None = None

    def put(self, entry: Entry, time: str) -> None:
        """Add an entry below the last node. Its id tells what it says: a changed document has other entries."""
        entry.parent_id, entry.timestamp = self._leaf, time
        said = sha256_hex(NATIVE.encode(entry))
        entry.id = derive_entry_id(self._document_id, said, len(self.lines))
        self.lines.append(NATIVE.encode(entry))
        if isinstance(entry, Custom):
            self._leaf = entry.id

    def state(self, custom_type: str, data: dict[str, Any], time: str, place: str = "") -> None:
        """Add a state entry. Raises SessionCorrupt for data that is no state here."""
        raw = Raw(_encode(data))
        effect = state_effect(custom_type, raw)
        assert effect is not None, "the type is reserved"
        wrong = self.now_is.take(effect, len(self.lines) + 1, time)
        if wrong is not None:
            where = effect.path.removeprefix("data") if isinstance(effect, BadState) else ""
            raise corrupt(self._name, f"{place}{where}: {wrong}")
        self.put(Custom(custom_type=custom_type, data=raw), time)


def _time(name: str, place: str, text: str) -> str:
    """Return a time with its offset: Nova's are UTC without one. Raises SessionCorrupt."""
    moment = rfc3339(text)
    if not moment:
        raise corrupt(name, f"{place} is no time")
    return moment


def _in_words(error: msgspec.DecodeError) -> str:
    what, _, place = str(error).partition(" - at `$.")
    if what.startswith(_MISSING):
        return f"{what.removeprefix(_MISSING).removesuffix('`')} is missing"
    return f"{place.removesuffix('`')}: {what}" if place else what
