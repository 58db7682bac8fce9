"""The messages that piglet would send for the entries of a context.

A branch summary gives no message, with a text or without. An extension's message is a message of the user
or of the assistant.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Raw

from sessiond.dialects.base import ContextLine, ContextMessage
from sessiond.dialects.lenient_json import fields, lenient, text
from sessiond.dialects.piglet.names import replacement_in
from sessiond.dialects.piglet.spelling import ROLE_OF_TYPE, message_of_data
from sessiond.model.row import MESSAGE_KINDS, Kind


def messages_of(lines: Sequence[ContextLine]) -> list[ContextMessage]:
    """Return the messages of these entries, in order."""
    found: list[ContextMessage] = []
    for index, entry in enumerate(lines):
        if entry.kind in MESSAGE_KINDS:
            found.append(ContextMessage(entry.id, _message(entry.line)))
        elif entry.kind == Kind.CUSTOM_MESSAGE:
            found.append(ContextMessage(entry.id, _extension(entry.line)))
        elif entry.kind == Kind.COMPACTION and index == 0:
            replacement = replacement_in(fields(entry.line).get("data"))
            found += [ContextMessage(entry.id, body) for body in replacement]
    return found


def _message(line: bytes) -> bytes:
    members = fields(line)
    return message_of_data(ROLE_OF_TYPE[text(members["type"]) or ""], members["data"])


def _extension(line: bytes) -> bytes:
    data = lenient(fields(line)["data"])
    content = bytes(data.get("content", Raw(b'""')))
    if text(data.get("role")) == "assistant":
        return b'{"role":"assistant","content":[{"text":' + content + b"}]}"
    return b'{"role":"user","content":' + content + b"}"
