"""Messages of Operator's shape that say what messages of other dialects say."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw

from sessiond.dialects.compose import NO_ARGUMENTS
from sessiond.dialects.operator.header import seconds
from sessiond.model.digests import sha256_hex
from sessiond.model.parsed_message import Block, ParsedMessage
from sessiond.model.usage import Usage

_ROLE: Final = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "custom": "custom",
    "branchSummary": "branch_summary",
    "branch_summary": "branch_summary",
    "compactionSummary": "compaction_summary",
    "compaction_summary": "compaction_summary",
}
_STOP: Final = {
    "toolUse": "tool_calls",
    "tool_use": "tool_calls",
    "aborted": "abort",
    "end_turn": "stop",
    "max_tokens": "length",
    "": "stop",
}
_STOPS: Final = frozenset({"stop", "length", "tool_calls", "content_filter", "abort", "error"})
# The kinds of the tools that every agent has.
_KIND: Final = {
    "read": "read",
    "write": "edit",
    "edit": "edit",
    "bash": "execute",
    "grep": "search",
    "find": "search",
    "ls": "search",
}


def compose(message: ParsedMessage, timestamp: str) -> list[Raw]:
    """Return the message; one message holds all results of several calls."""
    role = "tool" if message.is_result else _ROLE.get(message.role)
    if role is None:
        return []
    contents = [spelled for block in message.blocks for spelled in _spelled(block)]
    members: dict[str, Any] = {
        "contents": contents,
        "id": _id_of(role, contents, timestamp),
        "timestamp": seconds(timestamp) or 0.0,
        "role": role,
    }
    if role == "assistant":
        reason = _STOP.get(message.stop_reason, message.stop_reason)
        members["usage"] = _usage(message.usage or Usage())
        members["stop_reason"] = reason if reason in _STOPS else "stop"
        members["error"] = ""
    return [Raw(msgspec.json.encode(members))]


def _id_of(role: str, contents: list[Any], timestamp: str) -> str:
    """Return the id of a message, which is always the same one for the same message."""
    digest = sha256_hex(msgspec.json.encode([role, contents, timestamp]))
    return f"{digest[:8]}-{digest[8:12]}-4{digest[13:16]}-8{digest[17:20]}-{digest[20:32]}"


def _spelled(block: Block) -> list[Any]:
    match block.kind:
        case "text":
            return [_text(block.text)]
        case "thinking":
            return [{"type": "thinking", "content": block.text, "signature": block.signature}]
        case "image":
            return [_image(block)]
        case "tool_call":
            arguments = NO_ARGUMENTS if block.arguments is None else block.arguments
            called = {"type": "tool_call", "id": block.id, "name": block.name}
            kind = _KIND.get(block.name.lower(), "other")
            return [called | {"kind": kind, "args": arguments, "metadata": {}}]
        case "tool_result":
            return _result(block)
        case "other":
            raw = block.raw or Raw(b"null")
            # Operator reads no block of an unknown type, so the model gets the block as JSON.
            return [
                raw if block.spelling == "audio" else _text(bytes(raw).decode(errors="replace"))
            ]


def _text(words: str) -> dict[str, str]:
    return {"type": "text", "content": words}


def _image(block: Block) -> dict[str, Any]:
    address = block.url
    if not address:
        address = f"data:{block.mime_type or 'image/png'};base64,{block.data}"
    return {"type": "image", "images": [address]}


def _result(block: Block) -> list[Any]:
    """Return the result with its text, and behind the result what is no text."""
    spelled: dict[str, Any] = {"type": "tool_result", "id": block.id, "content": block.text}
    spelled |= {"is_error": block.is_error, "metadata": {}, "terminate": False}
    others = [part for part in block.parts if part.kind != "text"]
    return [spelled, *(one for part in others for one in _spelled(part))]


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "cost": {
            "input": 0.0,
            "output": 0.0,
            "cache_read": 0.0,
            "cache_write": 0.0,
            "total": usage.cost,
        },
    }
