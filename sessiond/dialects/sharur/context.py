"""The messages that sharur would send for the entries of a context.

A compaction that begins a context gives its summary, a message of the role `success`. Every
compaction also leaves a notice at its own place, between the messages before and after it:

    {"role":"compaction","content":"Context compacted. Freed 24800 tokens.","timestamp":"…"}

Only entries of the type `message` give messages besides. A compaction without a first kept entry
gives its summary alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Raw

from sessiond.dialects.base import ContextLine, ContextMessage
from sessiond.dialects.lenient_json import fields, join, text
from sessiond.dialects.native.context import message_of
from sessiond.dialects.sharur.values import ZERO_TIME, go_json
from sessiond.model.integers import IntegerDecoder
from sessiond.model.row import MESSAGE_KINDS, Kind

SUMMARY_ROLE: Final = "success"
NOTICE_ROLE: Final = "compaction"
# The lists of files behind a summary, as sharur writes them.
_ACTIVITY: Final = "### File Activity\n"
_LISTS: Final = ("- Read", "- Modified")
_integer: Final = IntegerDecoder[int](int)


def messages_of(lines: Sequence[ContextLine]) -> list[ContextMessage]:
    """Return the messages of these entries, in order."""
    found: list[ContextMessage] = []
    notice: ContextMessage | None = None
    for index, entry in enumerate(lines):
        if entry.kind == Kind.COMPACTION and index == 0 and entry.begins:
            members = fields(entry.line)
            summary = members.get("summary", Raw(b'""'))
            found.append(_message(entry.id, SUMMARY_ROLE, summary, members))
            notice = _notice(entry) if text(members.get("firstKeptEntryId")) else None
            continue
        if notice is not None and not entry.kept:
            found.append(notice)
            notice = None
        if entry.kind == Kind.COMPACTION:
            found.append(_notice(entry))
        elif entry.kind in MESSAGE_KINDS:
            found.append(ContextMessage(entry.id, message_of(entry.line)))
    return found if notice is None else [*found, notice]


def listed_files(summary: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the files that the text of a summary lists as read, and those listed as modified."""
    _, _, activity = summary.partition(_ACTIVITY)
    found: dict[str, tuple[str, ...]] = {}
    for line in activity.splitlines():
        word, colon, names = line.partition(": ")
        if not colon or word not in _LISTS:
            break
        found[word] = tuple(filter(None, names.split(", ")))
    read, modified = (found.get(word, ()) for word in _LISTS)
    return read, modified


def _notice(entry: ContextLine) -> ContextMessage:
    members = fields(entry.line)
    freed = max(0, _tokens(members, "tokensBefore") - _tokens(members, "tokensAfter"))
    said = go_json(f"Context compacted. Freed {freed} tokens.")
    return _message(entry.id, NOTICE_ROLE, said, members)


def _message(entry_id: str, role: str, content: Raw, members: dict[str, Raw]) -> ContextMessage:
    body = {
        "role": go_json(role),
        "content": content,
        "timestamp": members.get("timestamp", go_json(ZERO_TIME)),
    }
    return ContextMessage(entry_id, join(body))


def _tokens(members: dict[str, Raw], name: str) -> int:
    try:
        return _integer.decode(members.get(name, b"0"))
    except ValueError:
        return 0
