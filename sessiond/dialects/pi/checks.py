"""The checks of entries to write into a pi file, so that pi can still read the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct, UnsetType

from sessiond import typed
from sessiond.dialects.base import BadLine
from sessiond.dialects.checks import refuse_leaf, refuse_messages, require_main, require_only_name
from sessiond.dialects.lenient_json import fields, is_null, text
from sessiond.dialects.native.checks import check as check_native
from sessiond.dialects.native.checks import require_message, require_own_names
from sessiond.dialects.pi.names import PI_NAMES, TAKEN
from sessiond.errors import EntryInvalid
from sessiond.model.entries import (
    Compaction,
    CustomMessage,
    Entry,
    Leaf,
    Message,
    Opaque,
    SessionInfoEntry,
)

_FILE: Final = "a pi file"
# The roles that pi stores. pi generates branchSummary and compactionSummary messages itself.
_CONTENT: Final = {
    "user": b'"[',
    "assistant": b"[",
    "toolResult": b"[",
    "custom": b'"[',
    "system": b'"[',
}
_TEXTS: Final = {
    "toolResult": ("toolCallId", "toolName"),
    "bashExecution": ("command", "output"),
    "custom": ("customType",),
}
_ROLES: Final = frozenset({*_CONTENT, "bashExecution"})


class _Block(Struct, gc=False):
    type: str
    text: Raw | UnsetType = msgspec.UNSET


_blocks: Final = typed.decoder(list[_Block])


def check(entry: Entry | Opaque) -> None:
    """Raise EntryInvalid, which names the field, if the entry may not be stored."""
    require_main(entry, _FILE)
    if isinstance(entry, Opaque):
        require_own_names(entry.fields, TAKEN, "pi")
    if isinstance(entry, Opaque) and entry.type == "context_edit":
        _context_edit(entry.fields)
        return
    check_native(entry)
    checker = _CHECKS.get(type(entry))
    if checker is not None:
        checker(entry)


def _message(entry: Message) -> None:
    role = require_message(entry.message, "message")
    if role not in _ROLES:
        raise EntryInvalid(
            f"pi stores only messages of {', '.join(sorted(_ROLES))}", path="message.role"
        )
    found = fields(entry.message)
    for name in _TEXTS.get(role, ()):
        if text(found.get(name)) is None:
            raise EntryInvalid(f"{name} must be a text", path=f"message.{name}")
    if role in _CONTENT:
        _content(found.get("content"), "message.content", _CONTENT[role])


def _content(content: Raw | None, path: str, begins: bytes) -> None:
    first = bytes(content)[:1] if content is not None else b""
    if content is None or first not in {bytes([code]) for code in begins}:
        kinds = "a list of blocks" if begins == b"[" else "a text or a list of blocks"
        raise EntryInvalid(f"content must be {kinds}", path=path)
    if first != b"[":
        return
    try:
        blocks = _blocks.decode(content)
    except (msgspec.DecodeError, RecursionError):
        raise EntryInvalid(
            "each block must be an object with a type, which is a text", path=path
        ) from None
    for index, block in enumerate(blocks):
        if block.type != "text":
            continue
        if isinstance(block.text, UnsetType) or bytes(block.text)[:1] != b'"':
            raise EntryInvalid("a text block must have a text", path=f"{path}[{index}].text")


def _custom_message(entry: CustomMessage) -> None:
    if entry.role == "assistant":
        raise EntryInvalid(
            "pi sends an extension's message to the model only with the role user", path="role"
        )
    _content(entry.content, "content", b'"[')


def _context_edit(found: Mapping[str, Raw]) -> None:
    for name in found:
        if PI_NAMES.get(name, name) != name and PI_NAMES[name] in found:
            raise EntryInvalid(f"{name} and {PI_NAMES[name]} are one field: send one", path=name)
    target = found.get("target_id", found.get("targetId"))
    if text(target) is None:
        raise EntryInvalid("a context edit must name its target", path="target_id")
    replacement = found.get("replacement")
    if replacement is None:
        raise EntryInvalid("replacement must be null or have content", path="replacement")
    if is_null(replacement):
        return
    try:
        content = fields(replacement).get("content")
    except BadLine:
        raise EntryInvalid("replacement must be null or have content", path="replacement") from None
    _content(content, "replacement.content", b'"[')


_CHECKS: Final[dict[type[Any], Callable[[Any], None]]] = {
    Message: _message,
    CustomMessage: _custom_message,
    Compaction: partial(refuse_messages, file=_FILE),
    SessionInfoEntry: partial(require_only_name, file=_FILE),
    Leaf: partial(refuse_leaf, file=_FILE),
}
