"""The messages that pi would send for the entries of a context.

Stored messages are sliced out of their lines byte for byte. Messages that pi generates (for
a compaction, a branch summary or an extension's message) are spliced from the fields of the
entry. Since pi 1.5 a compaction may carry the system prompt, entries may edit the messages
of earlier entries, and a missing content means an empty content. Files of pi 0.73 have none
of these, so one implementation serves both versions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Raw

from sessiond.dialects.base import BadLine, ContextLine, ContextMessage
from sessiond.dialects.lenient_json import fields, is_null, join, text
from sessiond.dialects.native.context import message_of
from sessiond.model.row import MESSAGE_KINDS, Kind
from sessiond.model.times import unix_ms

_EMPTY_CONTENT: Final = {
    "user": b"[]",
    "assistant": b"[]",
    "toolResult": b"[]",
    "custom": b"[]",
    "system": b'""',
}
# Roles whose content is always a list of blocks; a text in an edit becomes one block.
_ONLY_BLOCKS: Final = frozenset({"assistant", "toolResult"})


def messages_of(lines: Sequence[ContextLine]) -> list[ContextMessage]:
    """Return the messages of these entries, in order."""
    edits = _edits(lines)
    found: list[ContextMessage] = []
    compacted = bool(lines) and lines[0].kind == Kind.COMPACTION
    for index, entry in enumerate(lines):
        if entry.kind == Kind.COMPACTION:
            # An older compaction inside the kept range gives no message.
            found.extend(_compaction(entry) if index == 0 else ())
            continue
        body = _body(entry)
        if body is not None and compacted and entry.kept and _is_system(entry, body):
            continue
        if body is not None and entry.id in edits:
            body = _edited(body, edits[entry.id])
        if body is not None:
            found.append(ContextMessage(entry.id, body))
    return found


def _body(entry: ContextLine) -> bytes | None:
    if entry.kind in MESSAGE_KINDS:
        return _with_content(message_of(entry.line))
    match entry.kind:
        case Kind.CUSTOM_MESSAGE:
            return _custom(fields(entry.line))
        case Kind.BRANCH_SUMMARY:
            return _branch_summary(fields(entry.line))
        case _:
            return None


def _with_content(message: bytes) -> bytes:
    """Return the message with an empty content if it has none; parse it only if that may be so."""
    if b'"content"' in message and b"null" not in message:
        return message
    found = fields(message)
    empty = _EMPTY_CONTENT.get(text(found.get("role")) or "")
    if empty is None or not is_null(found.get("content")):
        return message
    found["content"] = Raw(empty)
    return join(found)


def _is_system(entry: ContextLine, body: bytes) -> bool:
    """Return whether the message is a system message.

    Kept system messages are left out, because the compaction carries the state that they set.
    """
    return (
        entry.kind == Kind.OTHER_ROLE
        and b'"system"' in body
        and text(fields(body).get("role")) == "system"
    )


def _compaction(entry: ContextLine) -> list[ContextMessage]:
    found = fields(entry.line)
    bodies: list[bytes] = []
    if not is_null(found.get("systemMessage")):
        bodies.append(bytes(found["systemMessage"]))
    members = {"role": Raw(b'"compactionSummary"')}
    members |= {name: found[name] for name in ("summary", "tokensBefore") if name in found}
    bodies.append(join(members | {"timestamp": _ms(found)}))
    return [ContextMessage(entry.id, body) for body in bodies]


def _branch_summary(found: dict[str, Raw]) -> bytes | None:
    if not text(found.get("summary")):
        return None
    members = {"role": Raw(b'"branchSummary"'), "summary": found["summary"]}
    if "fromId" in found:
        members["fromId"] = found["fromId"]
    return join(members | {"timestamp": _ms(found)})


def _custom(found: dict[str, Raw]) -> bytes:
    members = {"role": Raw(b'"custom"')}
    if is_null(found.get("content")):
        found["content"] = Raw(b"[]")
    names = ("customType", "content", "display", "details")
    members |= {name: found[name] for name in names if name in found}
    return join(members | {"timestamp": _ms(found)})


def _ms(found: dict[str, Raw]) -> Raw:
    ms = unix_ms(text(found.get("timestamp")) or "")
    return Raw(b"null" if ms is None else b"%d" % ms)


def _edits(lines: Sequence[ContextLine]) -> dict[str, Raw | None]:
    """Return the new content by target, None to leave the target out; the latest edit wins."""
    found: dict[str, Raw | None] = {}
    for entry in lines:
        if entry.kind != Kind.CONTEXT_EDIT:
            continue
        edit = fields(entry.line)
        target, replacement = text(edit.get("targetId")), edit.get("replacement")
        if target is None or replacement is None:
            continue
        if is_null(replacement):
            found[target] = None
            continue
        try:
            content = fields(replacement).get("content")
        except BadLine:
            continue
        if content is not None:
            found[target] = content
    return found


def _edited(body: bytes, content: Raw | None) -> bytes | None:
    if content is None:
        return None
    found = fields(body)
    role = text(found.get("role")) or ""
    if role not in _EMPTY_CONTENT:
        return body
    if role in _ONLY_BLOCKS and bytes(content)[:1] == b'"':
        content = Raw(b'[{"type":"text","text":' + bytes(content) + b"}]")
    found["content"] = content
    return join(found)
