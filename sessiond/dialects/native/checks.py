"""The checks of entries to write into a native file. Reading is lenient, writing is not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct, UnsetType

from sessiond import typed
from sessiond.dialects.payload import read_payload
from sessiond.errors import EntryInvalid
from sessiond.model.entries import (
    ENTRY_TYPES,
    HEADER_TYPES,
    Compaction,
    Custom,
    CustomMessage,
    Entry,
    Message,
    ModelChange,
    Opaque,
    SessionInfoEntry,
    ThinkingLevelChange,
)
from sessiond.model.integers import IntegerDecoder
from sessiond.model.settings import CompactionSettings

RESULT_ROLES: Final = ("tool", "toolResult", "tool_result")


class _Role(Struct, gc=False):
    role: str


_settings: Final = IntegerDecoder[CompactionSettings | None](CompactionSettings | None)


def check(entry: Entry | Opaque) -> None:
    """Raise EntryInvalid, which names the field, if the entry may not be stored."""
    checker = _CHECKS.get(type(entry))
    if checker is not None:
        checker(entry)


def require_message(message: Raw, path: str) -> str:
    """Return the role of a message. Raises EntryInvalid if the value is no message."""
    try:
        role = typed.decode(message, _Role).role
    except (msgspec.DecodeError, RecursionError):
        role = ""
    if not role:
        if bytes(message).lstrip()[:1] != b"{":
            raise EntryInvalid("a message must be an object", path=path)
        raise EntryInvalid("a message must have a role, which is a text", path=f"{path}.role")
    return role


def require_own_names(names: Iterable[str], taken: AbstractSet[str], program: str) -> None:
    """Raise EntryInvalid for a field whose name is taken: the field would be lost."""
    for name in names:
        if name in taken:
            raise EntryInvalid(
                f"in a {program} file {name} has a meaning of its own in every entry: give the field"
                " another name",
                path=name,
            )


def _require_text(value: str | UnsetType, path: str) -> None:
    if isinstance(value, UnsetType) or not value.strip():
        raise EntryInvalid(f"{path} is empty", path=path)


def _require_content(content: Raw) -> None:
    if bytes(content).lstrip()[:1] not in {b'"', b"["}:
        raise EntryInvalid("content must be a text or a list of blocks", path="content")


def _message(entry: Message) -> None:
    require_message(entry.message, "message")
    if not isinstance(entry.blocks, UnsetType) and bytes(entry.blocks).lstrip()[:1] != b"[":
        raise EntryInvalid("blocks must be a list", path="blocks")


def _custom_message(entry: CustomMessage) -> None:
    _require_text(entry.custom_type, "custom_type")
    _require_content(entry.content)


def _compaction(entry: Compaction) -> None:
    if isinstance(entry.messages, UnsetType):
        _require_text(entry.summary, "summary")
        return
    for name in ("summary", "first_kept_entry_id"):
        if not isinstance(getattr(entry, name), UnsetType):
            raise EntryInvalid(
                "a compaction must have either a summary or messages, not both", path=name
            )
    for index, message in enumerate(entry.messages):
        role = require_message(message, f"messages[{index}]")
        if index == 0 and (role in RESULT_ROLES or read_payload(message).is_result):
            raise EntryInvalid(
                "a tool result cannot be the first message: its tool call must come before it",
                path="messages[0]",
            )


def _session_info(entry: SessionInfoEntry) -> None:
    if isinstance(entry.compaction, UnsetType):
        return
    try:
        _settings.decode(entry.compaction)
    except msgspec.DecodeError as error:
        raise EntryInvalid(f"invalid compaction settings: {error}", path="compaction") from None


def _opaque(entry: Opaque) -> None:
    _require_text(entry.type, "type")
    if entry.type in HEADER_TYPES:
        raise EntryInvalid("a header can only be the first line of a file", path="type")
    if entry.type in ENTRY_TYPES:
        raise EntryInvalid(
            "an entry of a known type must have the fields of that type", path="type"
        )


_CHECKS: Final[dict[type[Any], Callable[[Any], None]]] = {
    Message: _message,
    CustomMessage: _custom_message,
    Compaction: _compaction,
    Custom: lambda entry: _require_text(entry.custom_type, "custom_type"),
    ThinkingLevelChange: lambda entry: _require_text(entry.thinking_level, "thinking_level"),
    ModelChange: lambda entry: _require_text(entry.model_id, "model_id"),
    SessionInfoEntry: _session_info,
    Opaque: _opaque,
}
