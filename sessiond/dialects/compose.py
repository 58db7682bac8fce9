"""The blocks of a message that another dialect wrote, spelled with a `type`.

{"type":"text","text":"…"}  {"type":"thinking","thinking":"…"}
{"type":"image","data":"…","mimeType":"image/png"}
{"type":"toolCall","id":"…","name":"read","arguments":{"path":"a.go"}}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Raw

from sessiond.dialects.base import Dialect
from sessiond.model.parsed_message import Block, ParsedMessage
from sessiond.model.usage import Usage

NO_ARGUMENTS: Final = Raw(b"{}")
STOP_REASONS: Final[Mapping[str, str]] = {
    "tool_calls": "toolUse",
    "tool_use": "toolUse",
    "abort": "aborted",
    "end_turn": "stop",
    "max_tokens": "length",
    "content_filter": "error",
}
"""The words of pi and piglet for the reasons for which other programs stop."""


def results_in(message: ParsedMessage) -> list[Block]:
    """Return the tool results that a message holds."""
    return [block for block in message.blocks if block.kind == "tool_result"]


def result_members(block: Block, content: Callable[[Sequence[Block]], Any]) -> dict[str, Any]:
    """Return the members of a message with one tool result; `content` spells the result's blocks."""
    return {
        "role": "toolResult",
        "toolCallId": block.id,
        "toolName": block.name,
        "content": content(block.parts or (Block("text", text=block.text),)),
        "isError": block.is_error,
    }


def tagged(blocks: Iterable[Block]) -> list[Any]:
    """Return the blocks that a content can hold; a tool result is no block but a message."""
    return [spelled for block in blocks if (spelled := _tagged(block)) is not None]


def tagged_usage(usage: Usage | None) -> dict[str, Any]:
    """Return a usage by pi's names; zeros where there is none."""
    found = usage or Usage()
    return {
        "input": found.input_tokens,
        "output": found.output_tokens,
        "cacheRead": found.cache_read_tokens,
        "cacheWrite": found.cache_write_tokens,
        "totalTokens": found.total_tokens,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": found.cost},
    }


def said_by_user(dialect: Dialect, text: str, timestamp: str) -> Raw:
    """Return the message of the user that says a text."""
    (message,) = dialect.compose(ParsedMessage("user", (Block("text", text=text),)), timestamp)
    return message


def _tagged(block: Block) -> Any:
    match block.kind:
        case "text":
            return {"type": "text", "text": block.text}
        case "thinking":
            spelled: dict[str, Any] = {"type": "thinking", "thinking": block.text}
            if block.signature:
                spelled["thinkingSignature"] = block.signature
            if block.redacted:
                spelled["redacted"] = True
            return spelled
        case "image":
            if block.url:
                return {"type": "image_url", "image_url": {"url": block.url}}
            return {"type": "image", "data": block.data, "mimeType": block.mime_type}
        case "tool_call":
            arguments = NO_ARGUMENTS if block.arguments is None else block.arguments
            return {"type": "toolCall", "id": block.id, "name": block.name, "arguments": arguments}
        case "other":
            return block.raw
        case "tool_result":
            return None
