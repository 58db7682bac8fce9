"""Messages of piglet's shape that say what messages of other dialects say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from sessiond.dialects.compose import NO_ARGUMENTS, STOP_REASONS, result_members, results_in
from sessiond.dialects.lenient_json import lenient
from sessiond.model.parsed_message import Block, ParsedMessage
from sessiond.model.times import is_rfc3339
from sessiond.model.usage import Usage

_encode: Final = msgspec.json.Encoder().encode


def compose(message: ParsedMessage, timestamp: str) -> list[Raw]:
    """Return the messages; a message for each tool result."""
    results = results_in(message)
    if results:
        return [_encoded(result_members(block, _parts), timestamp) for block in results]
    match message.role:
        case "user":
            return [_encoded(_question(message.blocks), timestamp)]
        case "assistant":
            return [_encoded(_answer(message), timestamp)]
        case _:
            return []


def _encoded(members: dict[str, Any], timestamp: str) -> Raw:
    return Raw(_encode(members | {"timestamp": timestamp} if is_rfc3339(timestamp) else members))


def _question(said: Iterable[Block]) -> dict[str, Any]:
    """Return a user's message: its texts as one text, its images as blocks."""
    texts = [block.text for block in said if block.kind == "text"]
    members: dict[str, Any] = {"role": "user", "content": "\n".join(texts)}
    images = [_image(block) for block in said if block.kind == "image" and block.data]
    return members | {"blocks": images} if images else members


def _answer(message: ParsedMessage) -> dict[str, Any]:
    said = (_spoken(block) for block in message.blocks)
    return {
        "role": "assistant",
        "content": [block for block in said if block is not None],
        "model": message.model_id or "",
        "provider": message.provider or "",
        "usage": _usage(message.usage or Usage()),
        "stopReason": STOP_REASONS.get(message.stop_reason, message.stop_reason),
    }


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "cacheReadTokens": usage.cache_read_tokens,
        "cacheWriteTokens": usage.cache_write_tokens,
        "cost": usage.cost,
    }


def _parts(parts: Sequence[Block]) -> list[dict[str, Any]]:
    said = (_image(part) if part.kind == "image" else _text(part) for part in parts)
    return [part for part in said if part is not None]


def _spoken(block: Block) -> dict[str, Any] | None:
    match block.kind:
        case "thinking" if block.text:
            signed = {"signature": block.signature} if block.signature else {}
            return {"thinking": block.text} | signed
        case "tool_call":
            arguments = block.arguments
            # piglet's arguments are an object.
            if arguments is None or not lenient(arguments):
                arguments = NO_ARGUMENTS
            return {"id": block.id, "name": block.name, "arguments": arguments}
        case _:
            return _text(block)


def _text(block: Block) -> dict[str, Any] | None:
    return {"text": block.text} if block.kind == "text" else None


def _image(block: Block) -> dict[str, Any] | None:
    return {"data": block.data, "mimeType": block.mime_type} if block.data else None
