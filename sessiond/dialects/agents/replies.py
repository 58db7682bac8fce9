"""Answers that an agent writes in parts: names for the calls' results, and usage that counts once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct, structs

from sessiond.dialects.compose import result_members, results_in, tagged
from sessiond.dialects.lenient_json import join, lenient
from sessiond.dialects.native.compose import compose
from sessiond.model.parsed_message import Block, ParsedMessage
from sessiond.model.usage import Usage

REQUEST_TOKENS: Final = "requestTokens"
"""Member of a later part of an answer: the tokens of the whole request."""


def joined(parts: Sequence[ParsedMessage]) -> ParsedMessage:
    """Return the answer that is written in these parts.

    Each part may state the usage of the whole so far: the part with the most output counts, and of
    several such parts the last.
    """
    usage: Usage | None = None
    for part in parts:
        if part.usage is not None and (
            usage is None or part.usage.output_tokens >= usage.output_tokens
        ):
            usage = part.usage
    return ParsedMessage(
        role=parts[0].role,
        blocks=tuple(block for part in parts for block in part.blocks),
        model_id=next((part.model_id for part in parts if part.model_id), None),
        provider=next((part.provider for part in parts if part.provider), None),
        usage=usage,
        stop_reason=next((p.stop_reason for p in reversed(parts) if p.stop_reason), ""),
    )


def calls_in(message: ParsedMessage) -> dict[str, str]:
    """Return the names of the tools that a message calls, by the ids of the calls."""
    return {block.id: block.name for block in message.blocks if block.kind == "tool_call"}


def named(message: ParsedMessage, calls: Mapping[str, str]) -> ParsedMessage:
    """Return a message whose tool results name their tools."""

    def name(block: Block) -> Block:
        if block.kind != "tool_result" or block.name:
            return block
        return structs.replace(block, name=calls.get(block.id, ""))

    return structs.replace(message, blocks=tuple(map(name, message.blocks)))


class OpenCalls:
    """The calls without a result so far: the group of entries that each belongs to, and its tool."""

    def __init__(self) -> None:
        self._calls: dict[str, tuple[int, str]] = {}
        self._waiting: dict[int, int] = {}

    def ask(self, group: int, message: ParsedMessage) -> None:
        """Take the calls of a message of a group."""
        for call_id, name in calls_in(message).items():
            self._forget(call_id)
            self._calls[call_id] = (group, name)
            self._waiting[group] = self._waiting.get(group, 0) + 1

    def settle(self, message: ParsedMessage) -> tuple[ParsedMessage, int | None]:
        """Take the results of a message; return it with their tools' names, and the first call's group.

        The group is None if the message answers no open call.
        """
        if not message.is_result:
            return message, None
        asked = [block.id for block in message.blocks if block.kind == "tool_result"]
        found = {call_id: self._calls[call_id] for call_id in asked if call_id in self._calls}
        for call_id in found:
            self._forget(call_id)
        names = {call_id: name for call_id, (_, name) in found.items()}
        return named(message, names), next((group for group, _ in found.values()), None)

    def is_waiting(self, group: int) -> bool:
        """Return whether a call of a group has no result yet."""
        return group in self._waiting

    def _forget(self, call_id: str) -> None:
        group, _ = self._calls.pop(call_id, (0, ""))
        left = self._waiting.pop(group, 0) - 1
        if left > 0:
            self._waiting[group] = left


# -- the message of a line ------------------------------------------------------------------------


def one_message(
    message: ParsedMessage, response_id: str | None = None, request_tokens: int = 0
) -> Raw:
    """Return the one native message that says all of what a message says.

    `response_id` is of the answer that has this message as a part, and `request_tokens` counts the whole
    request, of which the usage of a later part states only the rest. Several results, or results beside
    other blocks, are blocks of the type `tool_result` in one content; `AgentDialect.context` makes
    messages of them.
    """
    more: dict[str, Any] = {} if response_id is None else {"responseId": response_id}
    usage = message.usage
    if more and usage is not None and usage.total_tokens < request_tokens:
        more[REQUEST_TOKENS] = request_tokens
    results = results_in(message)
    if not results or len(results) == len(message.blocks) == 1:
        (said,) = compose(message, more)
        return said
    rest = tuple(block for block in message.blocks if block.kind != "tool_result")
    (said,) = compose(structs.replace(message, blocks=rest))
    members = lenient(said)
    if not rest:
        members["role"] = Raw(b'"toolResult"')
    more = {"content": [_spelled(block) for block in message.blocks], **more}
    encoded = {name: Raw(msgspec.json.encode(value)) for name, value in more.items()}
    return Raw(join(members | encoded))


def as_all(said: Raw) -> Raw:
    """Return the native message of a part of an answer as one that says all of the answer."""
    return Raw(join(lenient(said) | {"restates": Raw(b"true")}))


def _spelled(block: Block) -> Any:
    if block.kind != "tool_result":
        return tagged([block])[0]
    members = result_members(block, _content)
    del members["role"]
    return {"type": "tool_result"} | members


def _content(blocks: Sequence[Block]) -> Any:
    if len(blocks) == 1 and blocks[0].kind == "text":
        return blocks[0].text
    return tagged(blocks)


# -- usage ----------------------------------------------------------------------------------------


def beyond(stated: Usage, usage: Usage) -> Usage:
    """Return the tokens of `usage` that `stated` lacks; never less than none."""
    return Usage(
        max(0, usage.input_tokens - stated.input_tokens),
        max(0, usage.output_tokens - stated.output_tokens),
        max(0, usage.cache_read_tokens - stated.cache_read_tokens),
        max(0, usage.cache_write_tokens - stated.cache_write_tokens),
        max(0, usage.total_tokens - stated.total_tokens),
        max(0.0, usage.cost - stated.cost),
    )


class StatedUsage(Struct):
    """The usage that the parts of one answer stated so far: their sum, and the most output of one."""

    stated: Usage | None = None
    output: int = 0

    def take(self, usage: Usage | None) -> Usage | None:
        """Return what the next part's usage adds to the parts before; None if it adds nothing.

        Each part may state the usage of the whole so far: the part with the most output counts.
        """
        if usage is None or (self.stated is not None and usage.output_tokens < self.output):
            return None
        self.output = usage.output_tokens
        if self.stated is None:
            self.stated = usage
            return usage
        more = beyond(self.stated, usage)
        self.stated = self.stated.plus(more)
        return more if more != Usage() else None

    @property
    def total(self) -> int:
        """Tokens of the whole request, as far as the parts stated them."""
        return 0 if self.stated is None else self.stated.total_tokens
