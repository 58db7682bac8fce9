"""What a message says, read from its payload.

Law: this is the only place that turns a payload into values, and `read_payload`
is the only door to it. Whatever passes a message on (file, event, context,
list, tree) never comes here; a test counts the visits. What a message cost is
the one member that lists need of it: `usage` reads that and nothing else.
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw

from sessiond.dialects.base import BadLine, Block, Reading
from sessiond.dialects.loose import fields, is_null, items, lenient, text

__all__ = ["read_payload", "reading_of"]

_TEXT: Final = frozenset({"text", "input_text", "output_text"})
_CALL: Final = frozenset({"toolCall", "tool_call", "tool_use"})
_RESULT: Final = frozenset({"toolResult", "tool_result", "tool"})


def reading_of(line: bytes) -> Reading | None:
    """What the message of a stored line says; None if the line holds none."""
    message = lenient(line).get("message")
    if message is None:
        return None
    try:
        return read_payload(message)
    except BadLine:
        return None


def read_payload(message: Raw) -> Reading:
    """What a message says. Raises BadLine if it is no object."""
    found = fields(message)
    role = text(found.get("role")) or ""
    content = found.get("content", found.get("contents"))
    said = _blocks(content)
    if role in _RESULT:
        said = _as_result(found, said)
    elif role == "bashExecution":
        said = _as_bash(found)
    usage = found.get("usage")
    return Reading(
        role=role,
        blocks=tuple(said),
        model_id=text(found.get("model")),
        provider=text(found.get("provider")),
        usage=None if is_null(usage) else usage,
    )


def _blocks(content: Raw | None) -> list[Block]:
    if content is None:
        return []
    whole = text(content)
    if whole is not None:
        return [Block("text", text=whole)]
    return [_block(lenient(raw)) for raw in items(content) or []]


def _block(found: dict[str, Raw]) -> Block:
    word = text(found.get("type")) or "text"
    if word in _TEXT:
        return Block("text", text=text(found.get("text")) or text(found.get("content")) or "")
    if word == "thinking":
        said = text(found.get("thinking")) or text(found.get("content")) or ""
        return Block("thinking", text=said)
    if word in _CALL:
        arguments = next((found[n] for n in ("arguments", "args", "input") if n in found), None)
        return Block(
            "tool_call",
            id=text(found.get("id")) or "",
            name=text(found.get("name")) or "",
            arguments=arguments,
        )
    if word in _RESULT:
        return _result(found, _blocks(found.get("content")))
    return Block("image" if word == "image" else "other")


def _as_result(found: dict[str, Raw], said: list[Block]) -> list[Block]:
    """A message that is one result, unless it holds results already."""
    if any(block.kind == "tool_result" for block in said):
        return said
    return [_result(found, said)]


def _result(found: dict[str, Raw], said: list[Block]) -> Block:
    call = next(
        (
            found_id
            for name in ("toolCallId", "tool_call_id", "tool_use_id", "id")
            if (found_id := text(found.get(name)))
        ),
        "",
    )
    failed = found.get("isError", found.get("is_error"))
    return Block(
        "tool_result",
        text="\n".join(block.text for block in said if block.kind == "text"),
        id=call,
        name=text(found.get("toolName")) or text(found.get("name")) or "",
        is_error=failed is not None and bytes(failed) == b"true",
    )


def _as_bash(found: dict[str, Raw]) -> list[Block]:
    command, output = text(found.get("command")) or "", text(found.get("output")) or ""
    return [Block("text", text=f"$ {command}\n{output}")]
