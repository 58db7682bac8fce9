"""Turns as messages of OpenAI's Chat Completions.

Results are messages of their own, right behind the calls; images of results stand in a user's
message behind them. There is no word for thinking, nor for a result that is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from sessiond.model.reading import Block, Reading
from sessiond.session.arranging import ProviderShape, Says, Turn
from sessiond.session.conversation import as_told, is_users
from sessiond.session.stringify import members_of, written

__all__ = ["SHAPE"]

_OWN: Final = frozenset({"input_audio", "file", "refusal"})
"""Blocks that only this API has a word for: they are shown as they are stored."""
_SYSTEM: Final = frozenset({"system", "developer"})
_Content = dict[str, Any]


def _says(reading: Reading) -> Says:
    return "nothing" if _message(reading) is None else "something"


def _messages(turn: Turn, *, is_first: bool) -> Iterator[tuple[str, bytes]]:
    del is_first  # whoever speaks first may
    for told, block in turn.results:
        result = {"role": "tool", "tool_call_id": block.id, "content": block.said}
        yield told.source, msgspec.json.encode(result)
    images = [
        (told.source, _image(part))
        for told, block in turn.results
        for part in block.parts
        if part.is_image
    ]
    if images:
        shown = {"role": "user", "content": [image for _, image in images]}
        yield images[0][0], msgspec.json.encode(shown)
    for told in turn.messages:
        message = _message(told.reading)
        assert message is not None, "else it is in no turn"
        yield told.source, msgspec.json.encode(message)


def _message(reading: Reading) -> _Content | None:
    """What is said beside results; None for nothing."""
    if reading.role in _SYSTEM:
        return {"role": "system", "content": reading.text} if reading.text else None
    if reading.role == "assistant":
        return _spoken(reading)
    if not is_users(reading):
        return None
    text = as_told(reading) or ""
    parts = list(_parts(reading))
    if not parts:
        return {"role": "user", "content": text} if text else None
    texts = [{"type": "text", "text": text}] if text else []
    return {"role": "user", "content": [*texts, *parts]}


def _spoken(reading: Reading) -> _Content | None:
    calls = [_function(block) for block in reading.blocks if block.kind == "tool_call"]
    own = [block.raw for block in reading.blocks if block.spelling == "refusal"]
    if not (reading.text or calls or own):
        return None
    content: Any = reading.text or None
    if own:
        texts = [{"type": "text", "text": reading.text}] if reading.text else []
        content = [*texts, *own]
    said = {"role": "assistant", "content": content}
    return said | ({"tool_calls": calls} if calls else {})


def _function(block: Block) -> _Content:
    arguments = written(members_of(block.arguments) or {})
    function = {"name": block.name, "arguments": arguments}
    return {"id": block.id, "type": "function", "function": function}


def _parts(reading: Reading) -> Iterator[Any]:
    for block in reading.blocks:
        if block.is_image:
            yield _image(block)
        elif block.spelling in _OWN and block.raw is not None:
            yield block.raw


def _image(block: Block) -> _Content:
    url = block.url or f"data:{block.mime_type};base64,{block.data}"
    return {"type": "image_url", "image_url": {"url": url}}


SHAPE: Final = ProviderShape(_says, _messages, splits=True)
