"""Entries that other programs stored, as items of the Responses API. Pure.

What has no item is left out: thinking (only its own model could read it), settings, labels, custom
entries. Ids of messages are left out too, since an API takes only ids that it gave.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

__all__ = ["as_list", "as_object", "foreign_items", "summary_item"]

_SPEAKERS: Final = frozenset({"user", "assistant", "system", "developer"})
_RESULTS: Final = frozenset({"toolResult", "tool_result", "tool"})
_TEXTS: Final = frozenset({"text", "input_text", "output_text"})
_CALLS: Final = frozenset({"toolCall", "tool_call", "tool_use"})
_OWN_PARTS: Final = frozenset(
    {"input_text", "input_image", "input_file", "input_audio", "output_text", "refusal"}
)

# What a message of this API has; a message with more is another program's.
_OWN_MEMBERS: Final = frozenset({"role", "content", "type", "id", "status", "phase"})

Json = dict[str, Any]


def foreign_items(entry: Mapping[str, Any]) -> list[Any]:
    """Return the items that an entry of any program stands for; none if the model never sees it."""
    match entry:
        case {"type": "message", "message": message}:
            return _message_items(as_object(message))
        case {"type": "branch_summary", "summary": str(summary)}:
            told = "What was tried on a branch that this conversation came back from:"
            return [summary_item(told, summary)]
        case {"type": "custom_message", "content": content}:
            role = "assistant" if entry.get("role") == "assistant" else "user"
            return _spoken(role, content)
        case _:
            return []


def summary_item(told: str, summary: str) -> Json:
    """Return a summary as the item of a user's message."""
    return {"role": "user", "content": f"{told}\n\n<summary>\n{summary}\n</summary>"}


def as_object(value: object) -> Json:
    """Return an object of JSON; an empty one for any other value."""
    return cast("Json", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """Return a list of JSON; an empty one for any other value."""
    return cast("list[object]", value) if isinstance(value, list) else []


def _message_items(message: Json) -> list[Any]:
    role, content = message.get("role"), message.get("content")
    if role in _RESULTS:
        return [_result(message, content)]
    if not isinstance(role, str) or role not in _SPEAKERS:
        return []
    parts, calls = as_list(content), as_list(message.get("tool_calls"))
    is_own = isinstance(content, str) or (bool(parts) and all(map(_is_own, parts)))
    if is_own and not calls and message.keys() <= _OWN_MEMBERS:
        return [message]
    calls = [part for part in parts if _kind(part) in _CALLS] + calls
    return _spoken(role, content) + [_call(as_object(call)) for call in calls]


def _spoken(role: str, content: object) -> list[Any]:
    """Return what a message says, as at most one item."""
    if isinstance(content, str):
        return [{"role": role, "content": content}] if content else []
    parts: list[Json] = []
    for part in as_list(content):
        block = {"text": part} if isinstance(part, str) else as_object(part)
        text = block.get("text")
        if _kind(part) in _TEXTS and isinstance(text, str) and text:
            kind = "output_text" if role == "assistant" else "input_text"
            parts.append({"type": kind, "text": text})
        elif (url := _image(block)) and role != "assistant":
            parts.append({"type": "input_image", "image_url": url, "detail": "auto"})
    return [{"role": role, "content": parts}] if parts else []


def _image(block: Json) -> str | None:
    """Return an image as a URL; None if the block is none."""
    match block:
        case {"type": "image_url", "image_url": {"url": str(url)} | str(url)}:
            return url
        case {"type": "image", "data": str(data), "mimeType": str(kind)}:
            return f"data:{kind};base64,{data}"
        case {"type": "image", "source": {"data": str(data), "media_type": str(kind)}}:
            return f"data:{kind};base64,{data}"
        case _:
            return None


def _call(call: Json) -> Json:
    function = as_object(call.get("function")) or call
    arguments = function.get("arguments", function.get("input", {}))
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    own = {"call_id": str(call.get("id", "")), "name": str(function.get("name", ""))}
    return {"type": "function_call", **own, "arguments": arguments}


def _result(message: Json, content: object) -> Json:
    call_id = next(
        (
            message[name]
            for name in ("toolCallId", "tool_call_id", "tool_use_id")
            if name in message
        ),
        "",
    )
    texts = [as_object(part).get("text") for part in as_list(content) if _kind(part) in _TEXTS]
    said = content if isinstance(content, str) else "".join(map(str, texts))
    return {"type": "function_call_output", "call_id": str(call_id), "output": said}


def _kind(part: object) -> str:
    if isinstance(part, str):
        return "text"
    block = as_object(part)
    return str(block.get("type", "text" if isinstance(block.get("text"), str) else ""))


def _is_own(part: object) -> bool:
    return as_object(part).get("type") in _OWN_PARTS
