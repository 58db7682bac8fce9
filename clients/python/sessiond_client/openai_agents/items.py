"""An item of the Responses API as an entry of a session, and back. Pure.

Law: an item, which may be any JSON, comes back equal, and no text is stored twice. Where other programs
have a word for what the item is, the entry has that word: messages, calls of functions and their
outputs are messages, which every client shows, searches and sends to any model. All further items
(reasoning, hosted tools, unknown types) are custom entries, which only this package reads.

| item | entry |
|---|---|
| message with a role | message: the item; if the item would be read as something else, with the mark `openai_item: true` |
| function_call | message of the assistant with `tool_calls`; further members in `openai_item` |
| function_call_output | message of role tool; further members in `openai_item` |
| any other | custom, `custom_type` "openai.item", the item as `data` |
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, Final, cast

from sessiond_client.openai_agents.foreign import as_object, foreign_items

__all__ = ["CUSTOM_TYPE", "entry_of", "items_of", "message_of"]

CUSTOM_TYPE: Final = "openai.item"
_MARK: Final = "openai_item"
_ROLES: Final = frozenset({"user", "assistant", "system", "developer"})

Json = dict[str, Any]


def entry_of(item: object) -> Json:
    """Return the entry that stores an item. Raises ValueError for what is no JSON."""
    require_json(item)
    message = _message(item)
    if message is None:
        return {"type": "custom", "custom_type": CUSTOM_TYPE, "data": item}
    return {"type": "message", "message": message}


def message_of(item: object) -> Json:
    """Return the message that stands for an item in the replacement of a context."""
    require_json(item)
    message = _message(item)
    # A role that no model knows: no other reader takes the message for something that was said.
    return {"role": _MARK, "item": item} if message is None else message


def items_of(entry: Mapping[str, Any]) -> list[Any]:
    """Return the items that an entry stands for: of this package exactly what was added."""
    match entry:
        case {"type": "custom", "custom_type": "openai.item", "data": item}:
            return [item]
        case {"type": "message", "message": message}:
            return message_items(as_object(message))
        case _:
            return foreign_items(entry)


def message_items(message: Json) -> list[Any]:
    """Return the items that a message stands for."""
    match message:
        case {"role": "openai_item", "item": item}:
            return [item]
        case {"openai_item": True}:
            return [{name: value for name, value in message.items() if name != _MARK}]
        case {"openai_item": {"type": "function_call"} as rest, "tool_calls": [call]}:
            function = call["function"]
            own = {"call_id": call["id"], "name": function["name"]}
            return [{**rest, **own, "arguments": function["arguments"]}]
        case {"openai_item": {"type": "function_call_output"} as rest}:
            return [{**rest, "call_id": message["tool_call_id"], "output": message["content"]}]
        case _:
            return foreign_items({"type": "message", "message": message})


def require_json(item: object) -> None:
    """Raise ValueError, which quotes no content, if an item is no JSON."""
    try:
        _require(item)
    except RecursionError:
        raise ValueError("an item that is no JSON: it holds itself, or is too deep") from None


def _require(value: object) -> None:
    match value:
        case None | bool() | int():
            return
        case str():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise ValueError("an item with half a character (a lone surrogate)") from None
        case float() if isfinite(value):
            return
        case dict():
            for name, member in cast("dict[object, object]", value).items():
                if not isinstance(name, str):
                    kind = type(name).__name__
                    raise ValueError(f"an item with a {kind} as the name of a member")  # noqa: TRY004
                _require(name)
                _require(member)
        case list() | tuple():
            for member in cast("list[object]", value):
                _require(member)
        case _:
            raise ValueError(f"an item that is no JSON: it holds a {type(value).__name__}")


def _message(item: object) -> Json | None:
    """Return the message for an item that other programs can read; None if there is none."""
    if not isinstance(item, dict) or _MARK in item:
        return None
    fields = cast("Json", item)
    match fields:
        case {"type": "function_call", "call_id": str(), "name": str(), "arguments": str()}:
            return _call(fields)
        case {"type": "function_call_output", "call_id": str(), "output": str() | list()}:
            return _output(fields)
        case {"role": str(role)} if role in _ROLES and fields.get("type", "message") == "message":
            is_plain = foreign_items({"type": "message", "message": fields}) == [fields]
            return fields if is_plain else {**fields, _MARK: True}
        case _:
            return None


def _call(item: Json) -> Json:
    named = ("call_id", "name", "arguments")
    function = {"name": item["name"], "arguments": item["arguments"]}
    call = {"id": item["call_id"], "type": "function", "function": function}
    rest = {name: value for name, value in item.items() if name not in named}
    return {"role": "assistant", "content": None, "tool_calls": [call], _MARK: rest}


def _output(item: Json) -> Json:
    named = ("call_id", "output")
    rest = {name: value for name, value in item.items() if name not in named}
    said = {"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]}
    return {**said, _MARK: rest}
