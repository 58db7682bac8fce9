"""The messages that entries of a native file put into a context.

Law: payloads are sliced out of their lines, never decoded. A message that stands for
an entry of another type has the fields of that entry, as the line spells them. Only the summary of
a compaction is longer than it is stored, if it has file lists: they follow it.

    {"role":"compaction_summary","timestamp":"…","summary":"…","first_kept_entry_id":"b2c3d4e5"}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Raw, Struct

from sessiond import typed
from sessiond.dialects.base import ContextLine, ContextMessage
from sessiond.dialects.lenient_json import fields, items, join, text
from sessiond.model.row import MESSAGE_KINDS, Kind

_ROLE: Final[dict[int, Raw]] = {
    Kind.CUSTOM_MESSAGE: Raw(b'"custom"'),
    Kind.BRANCH_SUMMARY: Raw(b'"branch_summary"'),
    Kind.COMPACTION: Raw(b'"compaction_summary"'),
}
_ENVELOPE: Final = frozenset({"type", "id", "parent_id", "head", "atom", "atom_of", "role"})


class _MessageLine(Struct, gc=False):
    message: Raw


def messages_of(lines: Sequence[ContextLine]) -> list[ContextMessage]:
    """Return the messages of these entries, in order."""
    found: list[ContextMessage] = []
    for index, entry in enumerate(lines):
        if entry.kind in MESSAGE_KINDS:
            found.append(ContextMessage(entry.id, message_of(entry.line)))
        elif entry.kind == Kind.COMPACTION:
            # An older compaction inside the kept range gives no message.
            found.extend(_compaction(entry) if index == 0 else ())
        elif entry.kind in _ROLE:
            found.extend(_stand_in(entry, fields(entry.line)))
    return found


def message_of(line: bytes) -> bytes:
    """Return the payload of a message line."""
    try:
        return bytes(typed.decode(line, _MessageLine).message)
    except (msgspec.DecodeError, RecursionError):
        return bytes(fields(line)["message"])


def _compaction(entry: ContextLine) -> list[ContextMessage]:
    found = fields(entry.line)
    replacement = items(found.get("messages", b"null"))
    if replacement is not None:
        return [ContextMessage(entry.id, bytes(message)) for message in replacement]
    if entry.ending and entry.ending.strip() not in (text(found.get("summary")) or entry.ending):
        # The bytes of the stored text stay as they are.
        longer = bytes(found["summary"])[:-1] + msgspec.json.encode(entry.ending)[1:]
        found["summary"] = Raw(longer)
    return _stand_in(entry, found)


def _stand_in(entry: ContextLine, found: dict[str, Raw]) -> list[ContextMessage]:
    """Return the message that stands for an entry of another type, or no message."""
    if entry.kind == Kind.BRANCH_SUMMARY and not text(found.get("summary")):
        return []
    members = {"role": _ROLE[entry.kind]}
    if "role" in found:
        # `role` names the type that the message stands for, so the speaker gets a name of its own.
        members["custom_role"] = found["role"]
    members |= {name: value for name, value in found.items() if name not in _ENVELOPE}
    return [ContextMessage(entry.id, join(members))]
