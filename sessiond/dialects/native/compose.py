"""Messages of a native file that say what messages of other dialects say."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from sessiond.dialects.compose import tagged, tagged_usage
from sessiond.model.parsed_message import Block, ParsedMessage

__all__ = ["compose"]


def compose(message: ParsedMessage) -> list[Raw]:
    """Return the messages; a message for each tool result."""
    results = [block for block in message.blocks if block.kind == "tool_result"]
    if results:
        return [Raw(msgspec.json.encode(_result(block))) for block in results]
    if not message.role:
        return []
    members: dict[str, Any] = {"role": message.role, "content": _content(message.blocks)}
    if message.model_id:
        members["model"] = message.model_id
        if message.provider:
            members["provider"] = message.provider
    if message.usage is not None:
        members["usage"] = tagged_usage(message.usage)
    if message.stop_reason:
        members["stopReason"] = message.stop_reason
    return [Raw(msgspec.json.encode(members))]


def _content(blocks: tuple[Block, ...]) -> Any:
    if len(blocks) == 1 and blocks[0].kind == "text":
        return blocks[0].text
    return tagged(blocks)


def _result(block: Block) -> dict[str, Any]:
    return {
        "role": "toolResult",
        "toolCallId": block.id,
        "toolName": block.name,
        "content": _content(block.parts or (Block("text", text=block.text),)),
        "isError": block.is_error,
    }
