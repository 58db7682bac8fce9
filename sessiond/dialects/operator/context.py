"""The messages that Operator would send for the entries of a context.

Stored messages are sliced out of their lines byte for byte. Messages that Operator generates (for
a compaction, a branch summary or an extension's message) are spliced from the fields of the entry.
Such a message has the id of its entry.

    {"contents":[{"type":"text","content":"…"}],"id":"aa00000b","timestamp":1784000020.25,
     "role":"compaction_summary"}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Raw

from sessiond.dialects.base import ContextLine, ContextMessage
from sessiond.dialects.lenient_json import fields, is_null, join, text
from sessiond.dialects.native.context import message_of
from sessiond.model.row import MESSAGE_KINDS, Kind

_NO_BLOCKS: Final = Raw(b"[]")
_NULL: Final = Raw(b"null")


def messages_of(lines: Sequence[ContextLine]) -> list[ContextMessage]:
    """Return the messages of these entries, in order."""
    bodies = [(entry.id, _body(entry, index)) for index, entry in enumerate(lines)]
    return [ContextMessage(entry_id, body) for entry_id, body in bodies if body is not None]


def _body(entry: ContextLine, index: int) -> bytes | None:
    if entry.kind in MESSAGE_KINDS:
        return message_of(entry.line)
    match entry.kind:
        case Kind.CUSTOM_MESSAGE:
            found = fields(entry.line)
            contents = found.get("content", _NO_BLOCKS)
            return _message("custom", contents, found, ("custom_type", "display", "details"))
        case Kind.BRANCH_SUMMARY:
            return _summary("branch_summary", fields(entry.line), ("from_id",))
        case Kind.COMPACTION if index == 0:
            return _summary("compaction_summary", fields(entry.line), ("tokens_before",))
        case _:
            # An older compaction inside the kept range gives no message.
            return None


def _summary(role: str, found: dict[str, Raw], more: tuple[str, ...]) -> bytes | None:
    if not text(found.get("summary")):
        return None
    contents = Raw(b'[{"type":"text","content":%b}]' % bytes(found["summary"]))
    return _message(role, contents, found, more)


def _message(role: str, contents: Raw, found: dict[str, Raw], more: tuple[str, ...]) -> bytes:
    if bytes(contents)[:1] == b'"':
        contents = Raw(b'[{"type":"text","content":%b}]' % bytes(contents))
    members = {
        "contents": _NO_BLOCKS if is_null(contents) else contents,
        "id": found["id"],
        "timestamp": found.get("timestamp", _NULL),
        "role": Raw(b'"%b"' % role.encode()),
    }
    return join(members | {name: found[name] for name in more if not is_null(found.get(name))})
