"""Turns as messages of Anthropic's Messages API.

User and assistant take turns, the user first. Each turn is one message that begins with its
results. Thinking is shown with the signature by which the API recognises its own thinking. System
messages are left out, since the API takes them apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from sessiond.model.parsed_message import Block, ParsedMessage
from sessiond.session.compaction.transcript import as_told, is_users
from sessiond.session.context.stringify import object_in
from sessiond.session.providers.call_ids import Legal
from sessiond.session.providers.images import Picture, picture_in
from sessiond.session.providers.turns import ProviderShape, Says, Turn

_CONTINUED: Final = "(The conversation goes on.)"
_FAILED: Final = "(It failed and said nothing.)"
_LEGAL: Final = Legal(id_chars=64, name_chars=128)
# Block types that only this API knows: they are shown as they are stored.
_USERS_OWN: Final = frozenset({"document", "search_result"})
_ASSISTANTS_OWN: Final = frozenset(
    {"server_tool_use", "web_search_tool_result", "redacted_thinking"}
)
_THOUGHTS: Final = frozenset({"thinking", "redacted_thinking"})
_OWN_NAMES: Final = ("anthropic", "claude")
_Content = dict[str, Any]


def _says(reading: ParsedMessage) -> Says:
    kinds = {kind for kind, _ in _blocks(reading)}
    if not kinds:
        return "nothing"
    return "thoughts" if kinds <= _THOUGHTS else "something"


def _messages(turn: Turn, *, is_first: bool) -> Iterator[tuple[str, bytes]]:
    blocks = [("tool_result", _tool_result(block)) for _, block in turn.results]
    # The API takes only text in the result of a failed call, so images move behind the results.
    failed = [part for _, block in turn.results if block.is_error for part in block.parts]
    blocks.extend(("image", image) for image in _images(failed))
    for told in turn.messages:
        blocks.extend(_blocks(told.reading))
    # The API refuses an assistant's message that ends with a thought.
    while turn.is_assistant and blocks[-1][0] in _THOUGHTS:
        blocks.pop()
    source = turn.results[0][0].source if turn.results else turn.messages[0].source
    if is_first and turn.is_assistant:
        opening = {"role": "user", "content": [{"type": "text", "text": _CONTINUED}]}
        yield source, msgspec.json.encode(opening)
    role = "assistant" if turn.is_assistant else "user"
    yield source, msgspec.json.encode({"role": role, "content": [block for _, block in blocks]})


def _blocks(reading: ParsedMessage) -> Iterator[tuple[str, Any]]:
    """Yield the blocks of a message without tool results, each with its type."""
    if reading.role == "assistant":
        for block in reading.blocks:
            yield from _spoken(reading, block)
    elif is_users(reading):
        text = as_told(reading)
        if text and text.strip():
            yield "text", {"type": "text", "text": text}
        for block in reading.blocks:
            if (picture := picture_in(block)) is not None:
                yield "image", _image(picture)
            elif block.spelling in _USERS_OWN and block.raw is not None:
                yield block.spelling, block.raw


def _spoken(reading: ParsedMessage, block: Block) -> Iterator[tuple[str, Any]]:
    if block.kind == "text" and block.text.strip():
        yield "text", {"type": "text", "text": block.text}
    elif block.kind == "thinking" and block.signature and _is_own(reading):
        if block.redacted:
            yield "redacted_thinking", {"type": "redacted_thinking", "data": block.signature}
        else:
            said = {"type": "thinking", "thinking": block.text, "signature": block.signature}
            yield "thinking", said
    elif block.kind == "tool_call":
        call = {"type": "tool_use", "id": block.id, "name": block.name}
        yield "tool_use", call | {"input": object_in(block.arguments)}
    elif block.spelling in _ASSISTANTS_OWN and block.raw is not None:
        yield block.spelling, block.raw


def _is_own(reading: ParsedMessage) -> bool:
    """Return whether a signature may be this API's: no other provider or model is named."""
    names = f"{reading.provider or ''} {reading.model_id or ''}".strip().lower()
    return not names or any(own in names for own in _OWN_NAMES)


def _tool_result(block: Block) -> _Content:
    found: _Content = {"type": "tool_result", "tool_use_id": block.id}
    said = block.said if block.said.strip() else ""
    if block.is_error:
        return found | {"content": [{"type": "text", "text": said or _FAILED}], "is_error": True}
    content: list[Any] = [{"type": "text", "text": said}] if said else []
    content += _images(block.parts)
    content += [part.raw for part in block.parts if part.spelling in _USERS_OWN]
    return found | {"content": content}


def _images(blocks: Iterable[Block]) -> list[_Content]:
    return [_image(picture) for block in blocks if (picture := picture_in(block)) is not None]


def _image(picture: Picture) -> _Content:
    if picture.url:
        return {"type": "image", "source": {"type": "url", "url": picture.url}}
    source = {"type": "base64", "media_type": picture.mime_type, "data": picture.data}
    return {"type": "image", "source": source}


SHAPE: Final = ProviderShape(_says, _messages, _LEGAL, splits=False)
