"""Sessions of Construct: one JSON document with turns, read as the entries of a native file.

Law: nothing of a document is lost. The blocks of a turn are kept beside its messages, the other
members of the turn in its first message, and the members of the document beside its turns in the
header. So an export gives equal JSON values.

    {"id":"abc123","agent_id":"general","created_at":"…","updated_at":"…",
     "turns":[{"id":"turn-1","status":"done","timestamp":"…","request":[…],"response":[…]}]}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct

from sessiond.dialects.base import BadLine
from sessiond.dialects.lenient_json import (
    array,
    fields,
    items,
    join,
    lenient,
    require_readable,
    text,
)
from sessiond.dialects.native.dialect import NATIVE
from sessiond.model.digests import sha256_hex
from sessiond.model.entries import Header, Message, SessionInfoEntry
from sessiond.model.ids import is_new_entry_id
from sessiond.model.times import rfc3339
from sessiond.service.sources.documents.refusal import corrupt

_encode: Final = msgspec.json.encode
# Block types whose content is words that a model reads.
_WORDS: Final = frozenset({"text", "code"})
_STATUSES: Final = frozenset({"active", "done", "error"})
_TOKENS: Final = ("input_tokens", "output_tokens", "total_tokens")
_NO_TIME: Final = "1970-01-01T00:00:00.000Z"


class ConstructSource(Struct, frozen=True):
    """The members of a document, and its turns."""

    members: dict[str, Raw]
    turns: list[dict[str, Raw]]


def construct_source(name: str, content: bytes) -> ConstructSource | None:
    """Return a document with turns; None for any other content.

    Raises SessionCorrupt for an index of sessions, and for a turn that is no object.
    """
    begin = content.lstrip()[:1]
    if begin == b"[":
        _require_no_index(name, content)
    if begin != b"{":
        return None
    try:
        members = fields(content)
    except BadLine:
        return None
    word = next((one for one in ("turns", "Turns") if one in members), "")
    turns = items(members[word]) if word and "type" not in members else None
    if turns is None:
        return None
    try:
        require_readable(content)
        found = [fields(turn) for turn in turns]
    except BadLine as bad:
        raise corrupt(name, f"a turn {bad}") from bad
    return ConstructSource({n: raw for n, raw in members.items() if n != word}, found)


def _require_no_index(name: str, content: bytes) -> None:
    rows = items(content)
    if rows is not None and all("turn_count" in lenient(row) for row in rows):
        raise corrupt(
            name,
            "this is an index of Construct's sessions, which holds no turns: import the files of the"
            " sessions, <id>.json beside the index",
        )


def title_in_index(content: bytes, source: ConstructSource) -> str | None:
    """Return the title that an index of sessions has for a document; None if it has none."""
    session_id = _word(source.members, "id")
    for row in map(lenient, items(content) or ()):
        if session_id is not None and text(row.get("id")) == session_id:
            return text(row.get("title")) or None
    return None


def construct_lines(
    source: ConstructSource, session_id: str, cwd: str | None, title: str | None
) -> list[bytes]:
    """Return the lines of a native file with the turns of the document."""
    document = source.members
    begun = _time(document, "started_at", "created_at")
    starts = [begun, *(_time(turn, "timestamp", "started_at") for turn in source.turns)]
    created = next(filter(None, (_time(document, "created_at"), *starts)), _NO_TIME)
    original = _word(document, "id") or ""
    # Equal documents have copies with equal lines, so a second import is known.
    making = _Making(original, created)
    for number, turn in enumerate(source.turns):
        is_last = number + 1 == len(source.turns)
        making.add(turn, number, document if is_last else {})
    status = _word(document, "status")
    if status in _STATUSES and status != making.derived:
        making.put(SessionInfoEntry(status=status), f"{original or 'session'}.status", making.now)
    kept = {"document": Raw(join(document)), "entries": len(making.lines)}
    header = Header(
        id=session_id,
        timestamp=created,
        cwd=cwd or "",
        title=title,
        agent=_word(document, "agent_id") or None,
        lineage=Raw(_encode({"header_id": original})) if original else UNSET,
        metadata=Raw(_encode({"construct": kept})),
    )
    return [NATIVE.encode_header(header), *making.lines]


class _Making:
    """The lines so far."""

    def __init__(self, seed: str, now: str) -> None:
        self.lines: list[bytes] = []
        self.now = now
        self.derived: str | None = None
        """Status of the session that the last turn gives."""
        self._seed = seed
        self._leaf: str | None = None
        self._ids: set[str] = set()

    def put(self, entry: Message | SessionInfoEntry, wanted: str, now: str) -> None:
        """Add an entry below the last message, under this id if it is free and may be one."""
        entry.id = self._free(wanted)
        entry.parent_id, entry.timestamp = self._leaf, now
        self.lines.append(NATIVE.encode(entry))
        if isinstance(entry, Message):
            self._leaf = entry.id

    def add(self, turn: dict[str, Raw], number: int, document: Mapping[str, Raw]) -> None:
        """Add the messages of a turn. `document` is that of the last turn, which may end there."""
        self.now = _time(turn, "timestamp", "started_at") or self.now
        wanted = _word(turn, "id") or f"turn-{number + 1}"
        request, response = _blocks(turn, "request"), _blocks(turn, "response")
        status = _word(turn, "status")
        asked = _message("user", request)
        asked.message = Raw(_with_turn(asked.message, turn))
        asked.started_at = _word(turn, "started_at") or UNSET
        ended_at = _word(turn, "ended_at") or _word(document, "ended_at")
        has_answer = bool(response) or status in {"done", "error"}
        last = _message("assistant", response) if has_answer else asked
        last.turn_status = status if status is not None else UNSET
        last.ended_at = ended_at if ended_at and status in {"done", "error"} else UNSET
        self.put(asked, wanted, self.now)
        if has_answer:
            usage = _usage(turn) or _usage(document)
            if usage is not None:
                last.message = Raw(bytes(last.message)[:-1] + b',"usage":' + _encode(usage) + b"}")
            self.put(last, f"{wanted}.response", self._answered(last, document))
        self.derived = {"done": "done", "error": "error"}.get(status or "", "active")

    def _answered(self, answer: Message, document: Mapping[str, Raw]) -> str:
        """Return the time of an answer: the end of its turn, or for the last one of the document."""
        ended = rfc3339(answer.ended_at) if isinstance(answer.ended_at, str) else ""
        return max(self.now, ended or _time(document, "updated_at") or "")

    def _free(self, wanted: str) -> str:
        found = wanted
        if wanted in self._ids or not is_new_entry_id(wanted):
            seed = f"{self._seed}\0{len(self.lines)}\0{wanted}"
            found = sha256_hex(seed.encode(errors="replace"))[:32]
        self._ids.add(found)
        return found


def _message(role: str, blocks: list[Raw] | None) -> Message:
    """Return a message with these blocks; its text is what a model reads of the blocks."""
    said = [
        words
        for block in map(lenient, blocks or ())
        if text(block.get("type")) in _WORDS and (words := text(block.get("content")))
    ]
    message = Message(message=Raw(_encode({"role": role, "content": "\n".join(said)})))
    if blocks is not None:
        message.blocks = array(blocks)
    return message


def _with_turn(message: Raw, turn: dict[str, Raw]) -> bytes:
    """Return a message with the members of its turn that stand nowhere else."""
    kept = {name: raw for name, raw in turn.items() if not _is_elsewhere(name, raw)}
    lacks = [name for name in ("request", "response", "status") if name not in turn]
    held = {"turn": Raw(join(kept)), "lacks": Raw(_encode(lacks))}
    return bytes(message)[:-1] + b',"construct":' + join(held) + b"}"


def _is_elsewhere(name: str, raw: Raw) -> bool:
    """Return whether a member of a turn becomes blocks or a status."""
    if name in {"request", "response"}:
        return items(raw) is not None
    return name == "status" and text(raw) is not None


def _blocks(turn: Mapping[str, Raw], name: str) -> list[Raw] | None:
    return items(turn[name]) if name in turn else None


def _spelled(found: Mapping[str, Raw], name: str) -> Raw | None:
    """Return a member in either spelling: of Construct's files, or of its documentation."""
    words = name.split("_")
    documented = "".join("ID" if word == "id" else word.capitalize() for word in words)
    return found.get(name, found.get(documented))


def _word(found: Mapping[str, Raw], name: str) -> str | None:
    return text(_spelled(found, name))


def _time(found: Mapping[str, Raw], *names: str) -> str | None:
    """Return the first of these members that is a time, as the daemon spells times."""
    told = (rfc3339(_word(found, name)) for name in names)
    return next(filter(None, told), None)


def _usage(found: Mapping[str, Raw]) -> dict[str, Any] | None:
    """Return the tokens of a turn or a document; None if the object says none."""
    told = lenient(_spelled(found, "usage") or b"")
    counts = {name: raw for name in _TOKENS if (raw := _spelled(told, name)) is not None}
    return counts or None
