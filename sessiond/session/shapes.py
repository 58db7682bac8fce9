"""A context as the messages that a provider's API takes.

Law: made of readings, so it is the same for every dialect. What is no message of the
conversation itself (a summary, a command of the user, an extension's) is told in the user's
place, in the words of `conversation`; what a provider has no word for is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from sessiond.model.reading import Block, Reading
from sessiond.session.conversation import as_told, is_users
from sessiond.session.mending import Told
from sessiond.session.stringify import members_of, written

__all__ = ["SHAPES", "ProviderShape"]

ProviderShape = Literal["openai", "anthropic"]
_Message = dict[str, Any]
_CONTINUED: Final = "(The conversation goes on.)"


def _openai(messages: Sequence[Told]) -> Iterator[tuple[str, bytes]]:
    """Chat Completions: results are messages of their own, images stand with the user."""
    for told in messages:
        for message in _openai_messages(told.reading):
            yield told.source, msgspec.json.encode(message)


def _openai_messages(reading: Reading) -> Iterator[_Message]:
    results = [block for block in reading.blocks if block.kind == "tool_result"]
    for block in results:
        text = _result_text(block)
        yield {"role": "tool", "tool_call_id": block.id, "content": text}
    shown = [_image_url(part) for block in results for part in block.parts if _is_image(part)]
    if shown:
        yield {"role": "user", "content": shown}
    if reading.role in {"system", "developer"}:
        yield {"role": "system", "content": _text(reading)}
    elif reading.role == "assistant":
        calls = [_function(block) for block in reading.blocks if block.kind == "tool_call"]
        text = _text(reading)
        if text or calls:
            said = {"role": "assistant", "content": text or None}
            yield said | ({"tool_calls": calls} if calls else {})
    elif is_users(reading):
        text = as_told(reading) or ""
        images = [_image_url(block) for block in reading.blocks if _is_image(block)]
        if images:
            texts = [{"type": "text", "text": text}] if text else []
            yield {"role": "user", "content": [*texts, *images]}
        elif text:
            yield {"role": "user", "content": text}


def _function(block: Block) -> _Message:
    arguments = written(members_of(block.arguments) or {})
    return {
        "id": block.id,
        "type": "function",
        "function": {"name": block.name, "arguments": arguments},
    }


def _image_url(block: Block) -> _Message:
    url = f"data:{block.mime_type};base64,{block.data}"
    return {"type": "image_url", "image_url": {"url": url}}


def _anthropic(messages: Sequence[Told]) -> Iterator[tuple[str, bytes]]:
    """Messages: user and assistant take turns, the user first; results stand with the user.

    The system's messages are no part of it.
    """
    turn: _Message | None = None
    source = ""
    for told in messages:
        role = "assistant" if told.reading.role == "assistant" else "user"
        blocks = list(_anthropic_blocks(told.reading))
        if not blocks:
            continue
        if turn is not None and turn["role"] == role:
            turn["content"] += blocks
            continue
        if turn is not None:
            yield source, msgspec.json.encode(turn)
        elif role == "assistant":
            first = {"role": "user", "content": [{"type": "text", "text": _CONTINUED}]}
            yield told.source, msgspec.json.encode(first)
        turn, source = {"role": role, "content": blocks}, told.source
    if turn is not None:
        yield source, msgspec.json.encode(turn)


def _anthropic_blocks(reading: Reading) -> Iterator[_Message]:
    for block in reading.blocks:
        if block.kind == "tool_result":
            yield _tool_result(block)
    if reading.role == "assistant":
        yield from _spoken(reading.blocks)
    elif is_users(reading):
        if text := as_told(reading):
            yield {"type": "text", "text": text}
        yield from (_base64(block) for block in reading.blocks if _is_image(block))


def _spoken(blocks: Sequence[Block]) -> Iterator[_Message]:
    for block in blocks:
        if block.kind == "text" and block.text.strip():
            yield {"type": "text", "text": block.text}
        elif block.kind == "thinking" and block.signature:
            # Without its signature the API takes it for made up.
            yield {"type": "thinking", "thinking": block.text, "signature": block.signature}
        elif block.kind == "tool_call":
            arguments = members_of(block.arguments) or {}
            yield {"type": "tool_use", "id": block.id, "name": block.name, "input": arguments}


def _tool_result(block: Block) -> _Message:
    text = _result_text(block)
    content: list[_Message] = [{"type": "text", "text": text}] if text else []
    content += [_base64(part) for part in block.parts if _is_image(part)]
    found: _Message = {"type": "tool_result", "tool_use_id": block.id, "content": content}
    return found | ({"is_error": True} if block.is_error else {})


def _base64(block: Block) -> _Message:
    source = {"type": "base64", "media_type": block.mime_type, "data": block.data}
    return {"type": "image", "source": source}


def _is_image(block: Block) -> bool:
    """An image that can be sent: its data are here."""
    return block.kind == "image" and bool(block.data)


def _text(reading: Reading) -> str:
    return "".join(block.text for block in reading.blocks if block.kind == "text")


def _result_text(block: Block) -> str:
    if not block.parts:
        return block.text
    return "".join(part.text for part in block.parts if part.kind == "text")


SHAPES: Final[Mapping[ProviderShape, Callable[[Sequence[Told]], Iterator[tuple[str, bytes]]]]] = {
    "openai": _openai,
    "anthropic": _anthropic,
}
