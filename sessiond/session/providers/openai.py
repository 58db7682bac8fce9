"""Turns as messages of OpenAI's Chat Completions API.

Results are messages of their own right behind the calls; images of results stand in a user message
behind the results. Nothing may come between a call and its results, so text that the assistant says
in between joins the message with the call. The API has no field for thinking, nor for a result that
is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from sessiond.model.parsed_message import Block, ParsedMessage
from sessiond.session.compaction.transcript import as_told, is_users
from sessiond.session.context.stringify import object_in
from sessiond.session.providers.call_ids import Legal
from sessiond.session.providers.images import Picture, picture_in
from sessiond.session.providers.tool_pairing import ContextMessage
from sessiond.session.providers.turns import ProviderShape, Says, Turn

_LEGAL: Final = Legal(id_chars=40, name_chars=64)
# Block types that only this API knows: they are shown as they are stored.
_USERS_OWN: Final = frozenset({"input_audio", "file"})
_REFUSAL: Final = "refusal"
_SYSTEM: Final = frozenset({"system", "developer"})
_Content = dict[str, Any]


def _says(reading: ParsedMessage) -> Says:
    return "nothing" if _message(reading) is None else "something"


def _messages(turn: Turn, *, is_first: bool) -> Iterator[tuple[str, bytes]]:
    del is_first  # this API lets either side speak first
    for told, block in turn.results:
        result = {"role": "tool", "tool_call_id": block.id, "content": block.said}
        yield told.source, msgspec.json.encode(result)
    images = [
        (told.source, _image(picture))
        for told, block in turn.results
        for part in block.parts
        if (picture := picture_in(part)) is not None
    ]
    if images:
        shown = {"role": "user", "content": [image for _, image in images]}
        yield images[0][0], msgspec.json.encode(shown)
    for group in _groups(turn):
        readings = [told.reading for told in group]
        message = _spoken(readings) if turn.is_assistant else _message(readings[0])
        assert message is not None, "else it is in no turn"
        yield group[0].source, msgspec.json.encode(message)


def _groups(turn: Turn) -> Iterator[Sequence[ContextMessage]]:
    """Yield groups of messages that are shown as one message each.

    From the assistant's first message with calls on, the rest of the turn is one group.
    """
    for at, told in enumerate(turn.messages):
        if turn.is_assistant and any(block.kind == "tool_call" for block in told.reading.blocks):
            yield turn.messages[at:]
            return
        yield [told]


def _message(reading: ParsedMessage) -> _Content | None:
    """Return the message without its tool results; None if nothing is left."""
    if reading.role in _SYSTEM:
        return {"role": "system", "content": reading.text} if reading.text else None
    if reading.role == "assistant":
        return _spoken([reading])
    if not is_users(reading):
        return None
    text = as_told(reading) or ""
    parts = list(_parts(reading))
    if not parts:
        return {"role": "user", "content": text} if text else None
    texts = [{"type": "text", "text": text}] if text else []
    return {"role": "user", "content": [*texts, *parts]}


def _spoken(readings: Sequence[ParsedMessage]) -> _Content | None:
    text = "\n\n".join(reading.text for reading in readings if reading.text)
    blocks = [block for reading in readings for block in reading.blocks]
    calls = [_function(block) for block in blocks if block.kind == "tool_call"]
    own = [block.raw for block in blocks if block.spelling == _REFUSAL and block.raw is not None]
    if not (text or calls or own):
        return None
    content: Any = text or None
    if own:
        content = [*([{"type": "text", "text": text}] if text else []), *own]
    said = {"role": "assistant", "content": content}
    return said | ({"tool_calls": calls} if calls else {})


def _function(block: Block) -> _Content:
    arguments = bytes(object_in(block.arguments)).decode(errors="replace")
    function = {"name": block.name, "arguments": arguments}
    return {"id": block.id, "type": "function", "function": function}


def _parts(reading: ParsedMessage) -> Iterator[Any]:
    for block in reading.blocks:
        if (picture := picture_in(block)) is not None:
            yield _image(picture)
        elif block.spelling in _USERS_OWN and block.raw is not None:
            yield block.raw


def _image(picture: Picture) -> _Content:
    url = picture.url or f"data:{picture.mime_type};base64,{picture.data}"
    return {"type": "image_url", "image_url": {"url": url}}


SHAPE: Final = ProviderShape(_says, _messages, _LEGAL, splits=True)
