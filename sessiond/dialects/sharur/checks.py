"""The checks of entries to write into a sharur file, so that sharur can still read the file.

sharur decodes each line into one Go type. A member of the wrong type, or a line of 64 KiB or more,
makes the whole session unreadable for sharur. sharur then takes the session for a new one and
writes a second trunk into the same file. So sessiond writes no such line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from sessiond import typed
from sessiond.dialects.checks import (
    facts_besides,
    refuse_leaf,
    refuse_messages,
    require_main,
    require_name,
)
from sessiond.dialects.lenient_json import fields, lenient, text
from sessiond.dialects.native.checks import check as check_native
from sessiond.dialects.native.checks import require_message, require_own_names
from sessiond.dialects.sharur.names import TAKEN
from sessiond.errors import EntryInvalid, TooLarge
from sessiond.limits import SHARUR_LINE_BYTES_MAX
from sessiond.model.entries import (
    INFO_SETTINGS,
    Compaction,
    CustomMessage,
    Entry,
    Leaf,
    Message,
    Opaque,
    SessionInfoEntry,
)
from sessiond.model.times import is_rfc3339

_FILE: Final = "a sharur file"
_ROLES: Final = ("assistant", "system", "tool", "user")
_TEXTS: Final = frozenset(
    {
        "cwd",
        "parentSession",
        "provider",
        "modelId",
        "thinkingLevel",
        "summary",
        "firstKeptEntryId",
        "fromId",
        "targetId",
        "label",
        "name",
        "customType",
    }
)
_NUMBERS: Final = frozenset({"version", "tokensBefore", "tokensAfter"})


class _Call(Struct, gc=False):
    id: str
    name: str
    args: dict[str, Raw] | None = None
    position: int = 0


class _Image(Struct, gc=False, rename={"mime_type": "mimeType"}):
    mime_type: str
    data: str


class _Usage(Struct, gc=False, rename="camel"):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0


# The members of a message besides role and content, and what each has to be.
_MESSAGE: Final[Mapping[str, tuple[Any, str]]] = {
    "id": (str, "a text"),
    "thinking": (str, "a text"),
    "toolCallId": (str, "a text"),
    "toolCalls": (
        list[_Call] | None,
        "a list of {id, name, args}, with texts and an object",
    ),
    "images": (
        list[_Image] | None,
        "a list of {mimeType, data}, both of them texts",
    ),
    "usage": (
        _Usage | None,
        "{promptTokens, completionTokens, totalTokens}, all of them whole numbers",
    ),
}


def check(entry: Entry | Opaque) -> None:
    """Raise EntryInvalid, which names the field, if the entry may not be stored."""
    require_main(entry, _FILE)
    check_native(entry)
    checker = _CHECKS.get(type(entry))
    if checker is not None:
        checker(entry)


def check_size(line: bytes) -> None:
    """Raise TooLarge for a line that sharur does not read."""
    if len(line) > SHARUR_LINE_BYTES_MAX:
        raise TooLarge(
            "sharur reads no line of 64 KiB or more, and no other line of a file that has one: send"
            " a shorter entry, or go on in a native session (session/create)",
            limit=SHARUR_LINE_BYTES_MAX,
            size=len(line),
        )


def _message(entry: Message) -> None:
    role = require_message(entry.message, "message")
    if role not in _ROLES:
        raise EntryInvalid(
            f"sharur stores only messages of {', '.join(_ROLES)}", path="message.role"
        )
    found = fields(entry.message)
    if text(found.get("content")) is None:
        raise EntryInvalid(
            "content must be a text: thinking, images and tool calls have members of their own",
            path="message.content",
        )
    if role == "tool" and text(found.get("toolCallId")) is None:
        raise EntryInvalid(
            "toolCallId must be a text: the id of the call that was answered",
            path="message.toolCallId",
        )
    _message_members(found, "message")


def _message_members(found: Mapping[str, Raw], path: str) -> None:
    for name, (kind, what) in _MESSAGE.items():
        if name not in found:
            continue
        try:
            typed.decode(found[name], kind)
        except (msgspec.DecodeError, RecursionError):
            raise EntryInvalid(f"{name} must be {what}", path=f"{path}.{name}") from None
    stamp = found.get("timestamp")
    if stamp is not None and not is_rfc3339(text(stamp) or ""):
        raise EntryInvalid(
            "timestamp must be a time of RFC 3339, as a text", path=f"{path}.timestamp"
        )


def _custom_message(entry: CustomMessage) -> None:
    if text(entry.content) is None:
        raise EntryInvalid("sharur's messages have a text as content", path="content")


def _compaction(entry: Compaction) -> None:
    refuse_messages(entry, _FILE)
    if not entry.first_kept_entry_id:
        raise EntryInvalid(
            "sharur shows nothing but the summary below a compaction that keeps no message: name"
            " the first message to keep",
            path="first_kept_entry_id",
        )


def _session_info(entry: SessionInfoEntry) -> None:
    for name in facts_besides(entry, ("name", *INFO_SETTINGS)):
        allowed = f"a name, {', '.join(INFO_SETTINGS[:-1])} and {INFO_SETTINGS[-1]}"
        raise EntryInvalid(f"a session_info of {_FILE} can only have {allowed}", path=name)
    if not any(facts_besides(entry, ("name",))):
        require_name(entry, _FILE)


def _opaque(entry: Opaque) -> None:
    """Refuse a member that sharur would decode and that is of another type than sharur's."""
    require_own_names(entry.fields, TAKEN, "sharur")
    for name, value in entry.fields.items():
        if name in _TEXTS and text(value) is None:
            raise EntryInvalid(f"sharur reads {name} as a text", path=name)
        if name in _NUMBERS and not bytes(value).strip().lstrip(b"-").isdigit():
            raise EntryInvalid(f"sharur reads {name} as a whole number", path=name)
        if name == "message":
            found = lenient(value)
            if not found or text(found.get("content", b'""')) is None:
                raise EntryInvalid("sharur reads message as one of its messages", path=name)
            _message_members(found, name)


_CHECKS: Final[dict[type[Any], Callable[[Any], None]]] = {
    Message: _message,
    CustomMessage: _custom_message,
    Compaction: _compaction,
    SessionInfoEntry: _session_info,
    Leaf: partial(refuse_leaf, file=_FILE),
    Opaque: _opaque,
}
