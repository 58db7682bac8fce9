"""Blocks: the parts of a turn as a front end shows them.

Law: `type` is an open set. The types that are made here are text, thinking, image, tool, status,
error and custom. Blocks that a writer stored pass as bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from sessiond import typed
from sessiond.model.parsed_message import Block, ShellCommand

_encode: Final = msgspec.json.encode
# The spelling of calls whose arguments are a JSON text.
_FUNCTION: Final = "function"


class ShownBlock(Struct, frozen=True, kw_only=True):
    """A block as a front end shows it. `content` is a text in the blocks that sessiond makes.

    A block that a writer stored is as stored: it may lack `content`, and have more members.
    """

    type: str
    content: Raw | UnsetType = UNSET
    meta: Raw | UnsetType = UNSET

    @classmethod
    def of(cls, word: str, content: str = "", meta: Mapping[str, Any] | None = None) -> ShownBlock:
        """Return a block of text; no member `meta` without metadata."""
        made = Raw(_encode(meta)) if meta else UNSET
        return cls(type=word, content=Raw(_encode(content)), meta=made)


class ToolBlock:
    """A tool call and its result, which may come later."""

    __slots__ = ("call", "result")

    def __init__(self, call: Block | None, result: Block | None = None) -> None:
        self.call = call
        self.result = result

    def shown(self, *, is_over: bool) -> ShownBlock:
        """Return the block; a call without a result is an error once its turn `is_over`."""
        call, result = self.call, self.result
        named = call or result
        assert named is not None, "a tool block has a call or a result"
        meta: dict[str, Any] = {"name": named.name}
        if named.id:
            meta["id"] = named.id
        if call is not None and call.arguments is not None:
            meta["input"] = _input(call)
        if result is not None:
            meta["state"] = "error" if result.is_error else "done"
        else:
            meta["state"] = "error" if is_over else "running"
        return ShownBlock.of("tool", "" if result is None else result.text, meta)


def _input(call: Block) -> Any:
    """Return the arguments of a call as JSON; OpenAI spells them as a text with JSON in it."""
    assert call.arguments is not None
    if call.spelling != _FUNCTION:
        return call.arguments
    try:
        inner = typed.decode(call.arguments, str)
        typed.decode(inner)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return call.arguments
    return Raw(inner.encode())


def plain_block(block: Block) -> ShownBlock | None:
    """Return a block that stands alone; None for an empty text and for calls and results."""
    match block.kind:
        case "text":
            return ShownBlock.of("text", block.text) if block.text else None
        case "thinking":
            meta = {"redacted": True} if block.redacted else None
            return ShownBlock.of("thinking", block.text, meta)
        case "image":
            told = {"mime_type": block.mime_type, "url": block.url}
            return ShownBlock.of("image", block.data, {n: v for n, v in told.items() if v})
        case "other":
            return ShownBlock.of("custom", "", {"type": block.spelling, "block": block.raw})
        case _:
            return None


def command_block(command: ShellCommand) -> ShownBlock:
    """Return a shell command that a user ran beside the conversation."""
    is_error = command.cancelled or command.exit_code not in {0, None}
    meta: dict[str, Any] = {
        "name": "bash",
        "input": {"command": command.command},
        "state": "error" if is_error else "done",
    }
    if command.exit_code is not None:
        meta["exit_code"] = command.exit_code
    return ShownBlock.of("tool", command.output, meta)
