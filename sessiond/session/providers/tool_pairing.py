"""A context in which every tool call has exactly one result and every result has its call.

Law: a view, never a rewrite. An interrupted call gets an error result, in the spelling of the call,
right after the message that made the call. A result without a call is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from sessiond import typed
from sessiond.model.escapes import whole_characters
from sessiond.model.parsed_message import Block, ParsedMessage

INTERRUPTED: Final = "[error:TOOL_INTERRUPTED] The call was interrupted and has no result."
_members: Final = typed.decoder(dict[str, Raw])
_items: Final = typed.decoder(list[Raw])
_At = tuple[int, int]


class ContextMessage(Struct, frozen=True):
    """A message of a context: its entry, its bytes, and the bytes' meaning."""

    source: str
    body: bytes
    reading: ParsedMessage
    place: int = 0
    """Index of the message in the context; a made-up result has the index of its call's message."""


def mended(messages: Sequence[ContextMessage]) -> list[ContextMessage]:
    """Return the messages, with an error result for each open call, without unmatched results."""
    pairs = paired(messages)
    whole = pairs.keys() | pairs.values()
    found: list[ContextMessage] = []
    for at, told in enumerate(messages):
        blocks = list(enumerate(told.reading.blocks))
        results = {number for number, block in blocks if block.kind == "tool_result"}
        alone = {number for number in results if (at, number) not in whole}
        if alone and alone == results and not _says_more(told.reading):
            continue
        found.append(_without(told, alone) if alone else told)
        for number, block in blocks:
            if _is_call(told.reading, block) and (at, number) not in whole:
                found.append(_interrupted(told, block))
    return found


def paired(messages: Sequence[ContextMessage]) -> dict[_At, _At]:
    """Return the call of each result, both as (message, block); a result belongs to the last call.

    Some models use one id for several calls.
    """
    waiting: dict[str, list[_At]] = {}
    found: dict[_At, _At] = {}
    for at, told in enumerate(messages):
        for number, block in enumerate(told.reading.blocks):
            if block.kind == "tool_result":
                if asked := waiting.get(block.id):
                    found[at, number] = asked.pop()
            elif _is_call(told.reading, block):
                waiting.setdefault(block.id, []).append((at, number))
    return found


def _is_call(reading: ParsedMessage, block: Block) -> bool:
    return block.kind == "tool_call" and reading.role == "assistant"


def _says_more(reading: ParsedMessage) -> bool:
    return any(block.kind not in {"tool_result", "other"} for block in reading.blocks)


def _without(told: ContextMessage, alone: set[int]) -> ContextMessage:
    """Return a message without some of its results; its other blocks stay as they were.

    One exception: half a character becomes U+FFFD, because the message cannot be parsed with it.
    """
    try:
        members = _members.decode(whole_characters(told.body))
        name = "content" if "content" in members else "contents"
        items = _items.decode(members[name])
    except (msgspec.DecodeError, KeyError, RecursionError):
        return told
    kept = [raw for at, raw in enumerate(items) if at not in alone]
    members[name] = Raw(b"[" + b",".join(bytes(raw) for raw in kept) + b"]")
    parts = (msgspec.json.encode(key) + b":" + bytes(raw) for key, raw in members.items())
    blocks = tuple(block for at, block in enumerate(told.reading.blocks) if at not in alone)
    reading = msgspec.structs.replace(told.reading, blocks=blocks)
    return ContextMessage(told.source, b"{" + b",".join(parts) + b"}", reading, told.place)


def _interrupted(told: ContextMessage, call: Block) -> ContextMessage:
    """Return an error result for a call without one, spelled as the call is."""
    text = [{"type": "text", "text": INTERRUPTED}]
    message: dict[str, Any]
    match call.spelling:
        case "tool_use":
            block = {"type": "tool_result", "tool_use_id": call.id, "content": INTERRUPTED}
            message = {"role": "user", "content": [block | {"is_error": True}]}
        case "function":
            message = {"role": "tool", "tool_call_id": call.id, "content": INTERRUPTED}
        case "tool_call":
            block = {"type": "tool_result", "id": call.id, "content": INTERRUPTED}
            message = {"role": "tool", "contents": [block | {"is_error": True}]}
        case _:
            message = {
                "role": "toolResult",
                "toolCallId": call.id,
                "toolName": call.name,
                "content": text,
                "isError": True,
            }
    part = Block("text", text=INTERRUPTED)
    result = Block(
        "tool_result", INTERRUPTED, id=call.id, name=call.name, is_error=True, parts=(part,)
    )
    reading = ParsedMessage(str(message["role"]), (result,))
    return ContextMessage(told.source, msgspec.json.encode(message), reading, told.place)
