"""The published rules by which the providers' APIs refuse a request.

Law: written from those rules alone, without knowledge of how sessiond makes messages. Each
function returns the faults of a list of messages, in words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["anthropic_troubles", "openai_troubles"]

Message = dict[str, Any]
Check = Callable[[Message], Iterator[str]]
IMAGE_TYPES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
DATA_URL = re.compile(r"data:([\w/.+-]+);base64,[^\s]+")
NO_SURROGATE = re.compile("[\ud800-\udfff]")


def anthropic_troubles(messages: list[Message]) -> list[str]:
    """Return the faults of the `messages` of a request to the Messages API."""
    return [*_all_text(messages), *_anthropic(messages)]


def openai_troubles(messages: list[Message]) -> list[str]:
    """Return the faults of the `messages` of a request to Chat Completions."""
    return [*_all_text(messages), *_openai(messages)]


def _all_text(value: Any) -> Iterator[str]:
    """Yield a fault if any text in the value has half a character."""
    if NO_SURROGATE.search(json.dumps(value, ensure_ascii=False)):
        yield "half a character"


# -- Anthropic -------------------------------------------------------------------------------


def _anthropic(messages: list[Message]) -> Iterator[str]:
    called: set[str] = set()
    waiting: list[str] = []
    for at, message in enumerate(messages):
        role, content = message["role"], message["content"]
        if set(message) != {"role", "content"} or not isinstance(content, list) or not content:
            yield f"{at}: a message is a role and blocks"
            continue
        if role != ("assistant" if at % 2 else "user"):
            yield f"{at}: {role} has no turn"
        results = [block for block in content if block["type"] == "tool_result"]
        if content[: len(results)] != results:
            yield f"{at}: results are not first"
        if sorted(one["tool_use_id"] for one in results) != sorted(waiting):
            yield f"{at}: {waiting} have no result here"
        yield from (f"{at}: {trouble}" for trouble in _blocks(role, content))
        waiting = [block["id"] for block in content if block["type"] == "tool_use"]
        if called & set(waiting) or len(set(waiting)) < len(waiting):
            yield f"{at}: tool_use ids must be unique"
        called |= set(waiting)
    if waiting and messages[-1]["role"] == "assistant":
        yield "calls at the end have no result"


def _blocks(role: str, content: list[Message]) -> Iterator[str]:
    allowed = _ASSISTANT_BLOCKS if role == "assistant" else _USER_BLOCKS
    for block in content:
        if block["type"] not in allowed:
            yield f"{block['type']} in a message of {role}"
        elif check := allowed[block["type"]]:
            yield from check(block)
    if role == "assistant" and content[-1]["type"] in {"thinking", "redacted_thinking"}:
        yield "the last block is thinking"


def _text(block: Message) -> Iterator[str]:
    if set(block) != {"type", "text"} or not block["text"].strip():
        yield "text is empty"


def _image(block: Message) -> Iterator[str]:
    source = block["source"]
    match source["type"]:
        case "base64":
            if source["media_type"] not in IMAGE_TYPES or not source["data"]:
                yield f"an image of {source['media_type']}"
            if set(source) != {"type", "media_type", "data"}:
                yield "an image has other members"
        case "url":
            if not source["url"].startswith(("https://", "http://")):
                yield "an image that is not on the web"
        case _:
            yield "an image without a source"


def _tool_use(block: Message) -> Iterator[str]:
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", block["id"]):
        yield f"the id {block['id']!r}"
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", block["name"]):
        yield f"the name {block['name']!r}"
    if not isinstance(block["input"], dict):
        yield "input is no object"


def _tool_result(block: Message) -> Iterator[str]:
    inside = block["content"]
    if block.get("is_error"):
        if not inside:
            yield "content cannot be empty if is_error is true"
        if any(part["type"] != "text" for part in inside):
            yield "all content must be text if is_error is true"
    for part in inside:
        if part["type"] == "text":
            yield from _text(part)
        elif part["type"] == "image":
            yield from _image(part)
        elif part["type"] not in {"document", "search_result"}:
            yield f"{part['type']} in a result"


def _thinking(block: Message) -> Iterator[str]:
    if set(block) != {"type", "thinking", "signature"} or not block["signature"]:
        yield "thinking without a signature"


# What has no rules of its own is allowed as it is.
_USER_BLOCKS: dict[str, Check | None] = {
    "text": _text,
    "image": _image,
    "tool_result": _tool_result,
    "document": None,
    "search_result": None,
}
_ASSISTANT_BLOCKS: dict[str, Check | None] = {
    "text": _text,
    "thinking": _thinking,
    "redacted_thinking": None,
    "tool_use": _tool_use,
    "server_tool_use": None,
    "web_search_tool_result": None,
}


# -- OpenAI ----------------------------------------------------------------------------------


def _openai(messages: list[Message]) -> Iterator[str]:
    waiting: list[str] = []
    for at, message in enumerate(messages):
        role = message["role"]
        if waiting and role != "tool":
            yield f"{at}: {waiting} must be answered first"
            waiting = []
        if role == "tool":
            if message["tool_call_id"] not in waiting:
                yield f"{at}: a result without its call"
            else:
                waiting.remove(message["tool_call_id"])
            if not isinstance(message["content"], str):
                yield f"{at}: a result is a text"
            continue
        check = {"system": _spoken_text, "user": _user, "assistant": _assistant}.get(role)
        if check is None:
            yield f"{at}: there is no role {role}"
            continue
        yield from (f"{at}: {trouble}" for trouble in check(message))
        waiting = [call["id"] for call in message.get("tool_calls", [])]
        if len(set(waiting)) < len(waiting):
            yield f"{at}: an id twice"
    if waiting:
        yield "calls at the end have no result"


def _spoken_text(message: Message) -> Iterator[str]:
    if set(message) != {"role", "content"} or not message["content"]:
        yield "content is a text"


def _user(message: Message) -> Iterator[str]:
    content = message["content"]
    if set(message) != {"role", "content"} or not content:
        yield "content is missing"
    if isinstance(content, str):
        return
    for part in content:
        if part["type"] == "image_url":
            url = part["image_url"]["url"]
            data = DATA_URL.fullmatch(url)
            if not url.startswith(("https://", "http://")) and not (
                data and data[1] in IMAGE_TYPES
            ):
                yield "an image that is neither here nor on the web"
        elif part["type"] == "text":
            if not part["text"]:
                yield "text is empty"
        elif part["type"] not in {"input_audio", "file"}:
            yield f"{part['type']} in a message of user"


def _assistant(message: Message) -> Iterator[str]:
    calls = message.get("tool_calls")
    if calls == []:
        yield "tool_calls is empty"
    if not message["content"] and not calls:
        yield "nothing is said"
    if isinstance(message["content"], list):
        for part in message["content"]:
            if part["type"] not in {"text", "refusal"}:
                yield f"{part['type']} in a message of assistant"
    for call in calls or []:
        yield from _call(call)


def _call(call: Message) -> Iterator[str]:
    if set(call) != {"id", "type", "function"} or call["type"] != "function":
        yield "a call is a function"
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,40}", call["id"]):
        yield f"the id {call['id']!r}"
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call["function"]["name"]):
        yield f"the name {call['function']['name']!r}"
    if not isinstance(json.loads(call["function"]["arguments"]), dict):
        yield "arguments are no object"
