"""The checks of entries to write into an Operator file, so that Operator can still read the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw, UnsetType

from sessiond.dialects.base import BadLine
from sessiond.dialects.checks import facts_besides, refuse_messages, require_main, require_name
from sessiond.dialects.lenient_json import fields, items, text
from sessiond.dialects.native.checks import check as check_native
from sessiond.dialects.native.checks import require_message
from sessiond.dialects.operator.header import seconds
from sessiond.errors import EntryInvalid
from sessiond.model.entries import (
    Compaction,
    CustomMessage,
    Entry,
    Leaf,
    Message,
    ModelChange,
    Opaque,
    SessionInfoEntry,
    ThinkingLevelChange,
)
from sessiond.model.times import rfc3339

_FILE: Final = "an Operator file"
ROLES: Final = (
    "system",
    "user",
    "assistant",
    "tool",
    "custom",
    "branch_summary",
    "compaction_summary",
)
_LEVELS: Final = ("off", "minimal", "low", "medium", "high", "xhigh", "max")
# The members that each block must have, with the first bytes that their values may have.
_TEXT: Final = b'"'
_BLOCKS: Final[dict[str, dict[str, bytes]]] = {
    "text": {"content": _TEXT},
    "image": {"images": b"["},
    "audio": {"audio": b"["},
    "thinking": {"content": _TEXT},
    "tool_call": {"id": _TEXT, "name": _TEXT, "args": b"{"},
    "tool_result": {"id": _TEXT, "content": b'"['},
}
_WORDS: Final = {_TEXT: "a text", b"[": "a list", b"{": "an object", b'"[': "a text or a list"}
_NUMBER: Final = frozenset(b"-0123456789")


def check(entry: Entry | Opaque) -> None:
    """Raise EntryInvalid, which names the field, if the entry may not be stored."""
    require_main(entry, _FILE)
    _time(entry.timestamp)
    check_native(entry)
    checker = _CHECKS.get(type(entry))
    if checker is not None:
        checker(entry)


def _time(time: str | UnsetType) -> None:
    """Raise EntryInvalid for a time that a number of seconds does not hold to the millisecond."""
    if isinstance(time, str) and rfc3339(seconds(time)) != rfc3339(time):
        raise EntryInvalid(
            "an Operator file keeps a time as a number, which cannot hold this one; send a time"
            " nearer to today's",
            path="timestamp",
        )


def _message(entry: Message) -> None:
    role = require_message(entry.message, "message")
    if role not in ROLES:
        raise EntryInvalid(
            f"Operator stores only messages of {', '.join(ROLES)}", path="message.role"
        )
    found = fields(entry.message)
    _content(found.get("contents"), "message.contents")
    if not text(found.get("id")):
        raise EntryInvalid("a message of Operator's must have an id, a text", path="message.id")
    if bytes(found.get("timestamp", b" "))[0] not in _NUMBER:
        raise EntryInvalid(
            "a message of Operator's must have a time, a number of seconds",
            path="message.timestamp",
        )
    _refuse(entry, ("blocks", "turn_status", "started_at", "ended_at"))


def _content(content: Raw | None, path: str) -> None:
    blocks = None if content is None else items(content)
    if blocks is None:
        raise EntryInvalid(f"{path} must be a list of Operator's blocks", path=path)
    for index, raw in enumerate(blocks):
        try:
            _block(fields(raw), f"{path}[{index}]")
        except BadLine:
            raise EntryInvalid("a block must be an object", path=f"{path}[{index}]") from None


def _block(block: Mapping[str, Raw], path: str) -> None:
    must = _BLOCKS.get(text(block.get("type")) or "")
    if must is None:
        kinds = ", ".join(_BLOCKS)
        raise EntryInvalid(f"a block of Operator's is one of {kinds}", path=f"{path}.type")
    for name, begins in must.items():
        if name not in block or bytes(block[name])[0] not in begins:
            raise EntryInvalid(f"{name} must be {_WORDS[begins]}", path=f"{path}.{name}")


def _custom_message(entry: CustomMessage) -> None:
    if entry.role == "assistant":
        raise EntryInvalid(
            "an Operator file keeps no role of an extension's message; leave role out", path="role"
        )
    if bytes(entry.content).lstrip()[:1] == b"[":
        _content(entry.content, "content")


def _compaction(entry: Compaction) -> None:
    refuse_messages(entry, _FILE)
    _refuse(entry, ("tokens_after",))


def _level(entry: ThinkingLevelChange) -> None:
    if entry.thinking_level not in {*_LEVELS, "none"}:
        raise EntryInvalid(
            f"Operator's thinking levels are {', '.join(_LEVELS)}", path="thinking_level"
        )


def _model(entry: ModelChange) -> None:
    if isinstance(entry.provider, UnsetType):
        raise EntryInvalid("a model of an Operator file must have a provider", path="provider")


def _session_info(entry: SessionInfoEntry) -> None:
    for name in facts_besides(entry, ("name",)):
        raise EntryInvalid(f"a session_info of {_FILE} has only a name", path=name)
    require_name(entry, _FILE)


def _leaf(entry: Leaf) -> None:
    if entry.reason == "drop":
        raise EntryInvalid("an Operator file has only the head main", path="reason")


def _opaque(entry: Opaque) -> None:
    if entry.type == "channel" and text(entry.fields.get("name")) is None:
        raise EntryInvalid("a channel must have a name, a text", path="name")


def _refuse(entry: Entry, names: tuple[str, ...]) -> None:
    for name in names:
        if getattr(entry, name) is not msgspec.UNSET:
            raise EntryInvalid(
                f"an Operator file has no place for {name}; leave {name} out", path=name
            )


_CHECKS: Final[dict[type[Any], Callable[[Any], None]]] = {
    Message: _message,
    CustomMessage: _custom_message,
    Compaction: _compaction,
    ThinkingLevelChange: _level,
    ModelChange: _model,
    SessionInfoEntry: _session_info,
    Leaf: _leaf,
    Opaque: _opaque,
}
