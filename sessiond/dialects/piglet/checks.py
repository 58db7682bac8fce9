"""The checks of entries to write into a piglet file, so that piglet can still read the file."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct, UnsetType

from sessiond import typed
from sessiond.dialects.base import BadLine
from sessiond.dialects.checks import facts_besides, refuse_leaf, require_main
from sessiond.dialects.entry_members import ENTRY_PREFIX
from sessiond.dialects.lenient_json import fields, is_null, text
from sessiond.dialects.native.checks import check as check_native
from sessiond.dialects.native.checks import require_message
from sessiond.dialects.piglet.messages import require_shape
from sessiond.dialects.piglet.meta import FACTS
from sessiond.dialects.piglet.names import KNOWN_TYPES
from sessiond.errors import EntryInvalid
from sessiond.model.entries import (
    Compaction,
    Custom,
    CustomMessage,
    Entry,
    Leaf,
    Message,
    Opaque,
    SessionInfoEntry,
)

_FILE: Final = "a piglet file"
LINE_BYTES: Final = 10 * 1024 * 1024
"""Length of a line with which piglet refuses the whole file."""
INFO_FIELDS: Final = ("name", "model", "metadata")
"""The fields of a `session_info` that a `meta` line states."""


class _Link(Struct):
    """The facts of a session that piglet keeps besides its title and its model."""

    parentId: str | None = None  # noqa: N815 - as piglet spells it
    forkPoint: int | None = None  # noqa: N815


def check(entry: Entry | Opaque) -> None:
    """Raise EntryInvalid, which names the field, if the entry may not be stored."""
    require_main(entry, _FILE)
    check_native(entry)
    checker = _CHECKS.get(type(entry))
    if checker is not None:
        checker(entry)


def require_line(line: bytes) -> None:
    """Raise EntryInvalid for a line that is too long for piglet."""
    if len(line) >= LINE_BYTES:
        raise EntryInvalid(
            f"the line would have {len(line)} bytes, and piglet opens no file with a line of"
            f" {LINE_BYTES} bytes or more: send less",
            path="",
        )


def _message(entry: Message) -> None:
    for name in ("blocks", "turn_status", "started_at", "ended_at"):
        if not isinstance(getattr(entry, name), UnsetType):
            raise EntryInvalid("a message of a piglet file has no such field", path=name)
    require_shape(entry.message, require_message(entry.message, "message"), "message")


def _custom_message(entry: CustomMessage) -> None:
    if text(entry.content) is None:
        raise EntryInvalid("content must be a text in a piglet file", path="content")


def _custom(entry: Custom) -> None:
    if entry.custom_type in KNOWN_TYPES or entry.custom_type.startswith(ENTRY_PREFIX):
        raise EntryInvalid(
            "in a piglet file this is the type of another entry; use another custom_type",
            path="custom_type",
        )


def _compaction(entry: Compaction) -> None:
    if isinstance(entry.messages, UnsetType):
        raise EntryInvalid(
            "a piglet file holds the messages that replace a context, and no pointer to the first"
            " kept entry: call session/compact, which makes the messages",
            path="summary",
        )
    if not entry.messages:
        raise EntryInvalid(
            "piglet ignores a compaction without messages when it opens the file again: send the"
            " messages that the context begins with, or call session/reset for an empty context",
            path="messages",
        )
    if not isinstance(entry.tokens_after, UnsetType):
        raise EntryInvalid("a piglet file has no tokens_after", path="tokens_after")
    for index, message in enumerate(entry.messages):
        path = f"messages[{index}]"
        require_shape(message, require_message(message, path), path)


def _session_info(entry: SessionInfoEntry) -> None:
    for name in facts_besides(entry, INFO_FIELDS):
        raise EntryInvalid(f"a session_info of {_FILE} can only have a name and a model", path=name)
    if not isinstance(entry.metadata, UnsetType) and not is_null(entry.metadata):
        _require_metadata(entry.metadata)


def _require_metadata(metadata: Raw) -> None:
    """Raise EntryInvalid for a member that piglet's own facts would replace or not read."""
    try:
        found = fields(metadata)
        typed.decode(metadata, _Link)
    except (BadLine, msgspec.DecodeError, RecursionError):
        found = {"id": metadata}
    if not FACTS.isdisjoint(found):
        raise EntryInvalid(
            "the metadata of a piglet file are an object with parentId, a text, and forkPoint, a"
            f" number; {', '.join(sorted(FACTS))} are other facts",
            path="metadata",
        )


_CHECKS: Final[dict[type[Any], Callable[[Any], None]]] = {
    Message: _message,
    CustomMessage: _custom_message,
    Custom: _custom,
    Compaction: _compaction,
    SessionInfoEntry: _session_info,
    Leaf: partial(refuse_leaf, file=_FILE),
}
