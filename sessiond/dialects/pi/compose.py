"""Messages of pi's shape that say what messages of other dialects say."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw

from sessiond.dialects.compose import tagged, tagged_usage
from sessiond.model.parsed_message import Block, ParsedMessage
from sessiond.model.times import unix_ms

__all__ = ["compose"]

_STOP: Final = {
    "tool_calls": "toolUse",
    "tool_use": "toolUse",
    "abort": "aborted",
    "end_turn": "stop",
    "max_tokens": "length",
    "content_filter": "error",
    "": "stop",
}


def compose(message: ParsedMessage, timestamp: str) -> list[Raw]:
    """Return the messages; a message for each tool result."""
    stamp = unix_ms(timestamp)
    results = [block for block in message.blocks if block.kind == "tool_result"]
    if results:
        return [_encoded(_result(block), stamp) for block in results]
    match message.role:
        case "user":
            return [_encoded({"role": "user", "content": tagged(message.blocks)}, stamp)]
        case "system":
            return [_encoded({"role": "system", "content": message.text}, stamp)]
        case "assistant":
            return [_encoded(_answer(message), stamp)]
        case _:
            return []


def _encoded(members: dict[str, Any], stamp: int | None) -> Raw:
    return Raw(msgspec.json.encode(members | {"timestamp": stamp}))


def _answer(message: ParsedMessage) -> dict[str, Any]:
    members: dict[str, Any] = {"role": "assistant", "content": tagged(message.blocks)}
    if message.model_id:
        members |= {"provider": message.provider or "", "model": message.model_id}
    members["usage"] = tagged_usage(message.usage)
    members["stopReason"] = _STOP.get(message.stop_reason, message.stop_reason)
    return members


def _result(block: Block) -> dict[str, Any]:
    parts = block.parts or (Block("text", text=block.text),)
    return {
        "role": "toolResult",
        "toolCallId": block.id,
        "toolName": block.name,
        "content": tagged(parts),
        "isError": block.is_error,
    }
