"""Messages of sharur's shape that say what messages of other dialects say.

{"role":"assistant","content":"Looking.","thinking":"read first",
 "toolCalls":[{"id":"call_1","name":"read","args":{"path":"client.go"}}],"timestamp":"…"}

A failed result has no flag: its text begins with "Error: ". An image that is only an address
becomes a line of text, since sharur stores images by their bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from sessiond.dialects.base import BadLine
from sessiond.dialects.compose import NO_ARGUMENTS, results_in
from sessiond.dialects.lenient_json import fields, text
from sessiond.dialects.sharur.values import ZERO_TIME, go_time
from sessiond.model.parsed_message import Block, ParsedMessage

_FAILED: Final = "Error: "
_ROLES: Final = frozenset({"user", "assistant", "system"})


def compose(message: ParsedMessage, timestamp: str) -> list[Raw]:
    """Return the messages; a message for each tool result."""
    stamp = go_time(timestamp) or ZERO_TIME
    results = results_in(message)
    if results:
        return [_encoded(_result(block), stamp) for block in results]
    if message.role not in _ROLES:
        return []
    return [_encoded(_said(message), stamp)]


def _encoded(members: dict[str, Any], stamp: str) -> Raw:
    return Raw(msgspec.json.encode(members | {"timestamp": stamp}))


def _said(message: ParsedMessage) -> dict[str, Any]:
    """Return the members of a message in sharur's order, without the time."""
    members: dict[str, Any] = {"role": message.role, "content": _text(message.blocks)}
    if thought := "\n".join(block.text for block in message.blocks if block.kind == "thinking"):
        members["thinking"] = thought
    if images := _images(message.blocks):
        members["images"] = images
    calls = [block for block in message.blocks if block.kind == "tool_call"]
    if calls:
        members["toolCalls"] = [
            {"id": call.id, "name": call.name, "args": _arguments(call.arguments)} for call in calls
        ]
    usage = message.usage
    if usage is not None:
        sent = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        members["usage"] = {
            "promptTokens": sent,
            "completionTokens": usage.output_tokens,
            "totalTokens": usage.total_tokens,
        }
    return members


def _result(block: Block) -> dict[str, Any]:
    said = _text(block.parts) if block.parts else block.text
    if block.is_error and not said.startswith(_FAILED):
        said = _FAILED + said
    members: dict[str, Any] = {"role": "tool", "content": said}
    if images := _images(block.parts):
        members["images"] = images
    return members | {"toolCallId": block.id}


def _text(blocks: Sequence[Block]) -> str:
    """Return the texts, and the addresses of images, a line each."""
    return "\n".join(
        block.text if block.kind == "text" else f"[image: {block.url}]"
        for block in blocks
        if block.kind == "text" or (block.kind == "image" and block.url)
    )


def _images(blocks: Sequence[Block]) -> list[dict[str, str]]:
    return [
        {"mimeType": block.mime_type, "data": block.data}
        for block in blocks
        if block.kind == "image" and not block.url
    ]


def _arguments(raw: Raw | None) -> Raw:
    """Return a call's arguments; an empty object if they are none. OpenAI's stand in a string."""
    if raw is None:
        return NO_ARGUMENTS
    said = text(raw)
    found = bytes(raw) if said is None else said.encode(errors="replace")
    try:
        fields(found)
    except BadLine:
        return NO_ARGUMENTS
    return Raw(found)
