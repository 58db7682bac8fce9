"""Native entries as lines of a piglet file.

Law: members have the order in which piglet writes them, and Go's escapes. A value that piglet has no
place for stands in a member that piglet ignores (`details`, `customType`), or is refused by
`checks`.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw, UnsetType

from sessiond.dialects.base import BadLine
from sessiond.dialects.entry_members import ENTRY_PREFIX
from sessiond.dialects.lenient_json import one_line
from sessiond.dialects.piglet.header import META
from sessiond.dialects.piglet.meta import OWN_ID, data_of_info
from sessiond.dialects.piglet.names import CUSTOM_MESSAGE, MODEL, THINKING
from sessiond.dialects.piglet.spelling import ZERO_TIME, data_of_message, escaped
from sessiond.errors import EntryInvalid
from sessiond.model.entries import (
    BranchSummary,
    Compaction,
    Custom,
    CustomMessage,
    Entry,
    Header,
    Label,
    Message,
    ModelChange,
    Opaque,
    SessionInfoEntry,
    ThinkingLevelChange,
)
from sessiond.model.times import rfc3339

_encode: Final = msgspec.json.Encoder().encode
_Members = dict[str, Any]


def encode(entry: Entry | Opaque, header: Header) -> bytes:
    """Return the entry as one line. Raises EntryInvalid for an entry that piglet has no line for."""
    word, behind = _spelled(entry, header)
    line: _Members = {"type": word}
    if word != META:
        line["id"] = entry.id
        if isinstance(entry.parent_id, str):
            line["parentId"] = entry.parent_id
    time = ZERO_TIME if isinstance(entry.timestamp, UnsetType) else rfc3339(entry.timestamp)
    # piglet skips a line with a time that is none, and reads one without a time.
    if time:
        line["ts"] = time
    return escaped(one_line(_encode(line | behind)))


def _spelled(entry: Entry | Opaque, header: Header) -> tuple[str, _Members]:
    """Return the type of the line, and its members from `data` on."""
    match entry:
        case Message():
            word, data = _message(entry.message, "message")
            return word, {"data": Raw(data)}
        case Compaction():
            return "compact", _compaction(entry)
        case BranchSummary():
            own = {"summary": entry.summary, "fromId": entry.from_id or ""}
            return "branch_summary", {"data": own | _details(entry.details)}
        case CustomMessage():
            return "custom_message", {"data": _custom_message(entry)}
        case Label():
            return "label", {"data": {"targetId": entry.target_id, "label": entry.label or ""}}
        case SessionInfoEntry():
            return META, {"data": data_of_info(entry, header), OWN_ID: entry.id}
        case ModelChange() | ThinkingLevelChange():
            return _setting(entry)
        case Custom():
            return entry.custom_type, {
                "data": None if isinstance(entry.data, UnsetType) else entry.data
            }
        case Opaque():
            return ENTRY_PREFIX + entry.type, {"data": entry.fields}
        case _:
            raise EntryInvalid("a piglet file has no entries of this type", path="type")


def _message(message: Raw, path: str) -> tuple[str, bytes]:
    try:
        word, data = data_of_message(message)
    except BadLine:
        raise EntryInvalid("a message must be an object", path=path) from None
    if not word:
        raise EntryInvalid(
            "piglet stores only messages of user, assistant, toolResult", path=f"{path}.role"
        )
    return word, data


def _compaction(entry: Compaction) -> _Members:
    if isinstance(entry.messages, UnsetType):
        raise EntryInvalid(
            "a piglet file holds the messages that replace a context, and no pointer to the first"
            " kept entry: call session/compact, which makes the messages",
            path="summary",
        )
    within: list[_Members] = []
    for index, message in enumerate(entry.messages):
        word, data = _message(message, f"messages[{index}]")
        within.append({"type": word, "ts": ZERO_TIME, "data": Raw(data)})
    members: _Members = {"data": within}
    if entry.tokens_before:
        members["tokensBefore"] = entry.tokens_before
    return members | _details(entry.details)


def _setting(entry: ModelChange | ThinkingLevelChange) -> tuple[str, _Members]:
    if isinstance(entry, ThinkingLevelChange):
        return THINKING, {"data": {"thinkingLevel": entry.thinking_level}}
    named = {"modelId": entry.model_id}
    if not isinstance(entry.provider, UnsetType):
        named["provider"] = entry.provider
    return MODEL, {"data": named}


def _custom_message(entry: CustomMessage) -> _Members:
    role = "user" if isinstance(entry.role, UnsetType) else entry.role
    data: _Members = {"role": role, "content": entry.content}
    if entry.custom_type != CUSTOM_MESSAGE:
        data["customType"] = entry.custom_type
    if not entry.display:
        data["display"] = False
    return data | _details(entry.details)


def _details(details: Raw | UnsetType) -> _Members:
    return {} if isinstance(details, UnsetType) else {"details": details}
