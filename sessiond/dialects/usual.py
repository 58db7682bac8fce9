"""Messages of the usual shape, decoded in one pass.

Law: a reading from here equals the reading of `payload`'s general way in every member; None
means only that the general way must decide. Every member that the general way reads is named
here, so that a member that makes a message unusual is noticed.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from sessiond import typed
from sessiond.dialects.lenient_json import is_null
from sessiond.dialects.usage import usage_in
from sessiond.model.parsed_message import Block, ParsedMessage


class _Block(Struct, gc=False):
    type: str
    text: str = ""
    thinking: str = ""
    tool_use_id: str = ""
    thinkingSignature: str = ""  # noqa: N815 - as pi spells it
    signature: Raw | UnsetType = UNSET
    redacted: Raw | UnsetType = UNSET
    id: str = ""
    name: str = ""
    arguments: Raw | UnsetType = UNSET
    content: Raw | UnsetType = UNSET
    args: Raw | UnsetType = UNSET
    input: Raw | UnsetType = UNSET
    function: Raw | UnsetType = UNSET
    is_error: bool = False
    isError: Raw | UnsetType = UNSET  # noqa: N815 - as pi spells it
    toolCallId: Raw | UnsetType = UNSET  # noqa: N815
    tool_call_id: Raw | UnsetType = UNSET
    toolName: Raw | UnsetType = UNSET  # noqa: N815


class _Message(Struct, gc=False):
    role: str
    content: str | list[_Block]
    model: str | None = None
    provider: str | None = None
    usage: Raw = Raw(b"null")
    stopReason: str = ""  # noqa: N815 - as pi spells it
    toolCallId: str = ""  # noqa: N815
    toolName: str = ""  # noqa: N815
    isError: bool = False  # noqa: N815
    contents: Raw | UnsetType = UNSET
    tool_calls: Raw | UnsetType = UNSET
    toolCalls: Raw | UnsetType = UNSET  # noqa: N815
    images: Raw | UnsetType = UNSET
    blocks: Raw | UnsetType = UNSET
    thinking: Raw | UnsetType = UNSET
    stop_reason: str | None = None
    finish_reason: Raw | UnsetType = UNSET
    custom_role: Raw | UnsetType = UNSET


_CONTENT: Final = str | list[_Block]
_TEXT: Final = frozenset({"text", "input_text", "output_text"})
_ROLES: Final = frozenset({"user", "assistant", "toolResult", "system", "custom"})
_DECODE_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def usual_reading(message: Raw) -> ParsedMessage | None:
    """Return the decoded message; None for a message that needs the general way."""
    try:
        found = typed.decode(message, _Message)
    except _DECODE_ERRORS:
        return None
    if found.role not in _ROLES or not (
        found.contents
        is found.tool_calls
        is found.toolCalls
        is found.images
        is found.blocks
        is found.thinking
        is found.finish_reason
        is found.custom_role
        is UNSET
    ):
        return None
    blocks = _blocks(found.content)
    if blocks is None:
        return None
    if found.role == "toolResult":
        holds_result = any(block.kind == "tool_result" for block in blocks)
        if holds_result or not (found.toolCallId and found.toolName):
            return None
        blocks = (_result(found.toolCallId, found.toolName, blocks, found.isError),)
    return ParsedMessage(
        role=found.role,
        blocks=blocks,
        model_id=found.model,
        provider=found.provider,
        usage=None if is_null(found.usage) else usage_in(found.usage),
        stop_reason=found.stopReason or found.stop_reason or "",
    )


def _blocks(content: str | list[_Block]) -> tuple[Block, ...] | None:
    if isinstance(content, str):
        return (Block("text", text=content),)
    blocks: list[Block] = []
    for found in content:
        if found.type in _TEXT and found.text:
            blocks.append(Block("text", text=found.text))
        elif found.type == "thinking" and found.thinking and _is_plain(found):
            blocks.append(Block("thinking", text=found.thinking, signature=found.thinkingSignature))
        elif found.type == "tool_result" and (said := _said(found)) is not None:
            blocks.append(said)
        elif (arguments := _arguments(found)) is not None:
            blocks.append(
                Block(
                    "tool_call",
                    id=found.id,
                    name=found.name,
                    arguments=arguments,
                    spelling=found.type,
                )
            )
        else:
            return None
    return tuple(blocks)


def _arguments(found: _Block) -> Raw | None:
    """Return the arguments of a call; None for a block that is none, or needs the general way."""
    if found.type == "toolCall":
        given = found.arguments
    elif found.type == "tool_use" and found.arguments is found.args is UNSET:
        given = found.input
    else:
        return None
    return given if isinstance(given, Raw) and found.function is UNSET else None


def _said(found: _Block) -> Block | None:
    """Return the result that a block is; None for one that needs the general way."""
    if not found.tool_use_id or not (
        found.isError is found.toolCallId is found.tool_call_id is found.toolName is UNSET
    ):
        return None
    content = found.content
    try:
        said = _blocks(typed.decode(content, _CONTENT)) if isinstance(content, Raw) else ()
    except _DECODE_ERRORS:
        return None
    return None if said is None else _result(found.tool_use_id, found.name, said, found.is_error)


def _is_plain(found: _Block) -> bool:
    return found.signature is UNSET and found.redacted is UNSET


def _result(call_id: str, name: str, blocks: tuple[Block, ...], is_error: bool) -> Block:  # noqa: FBT001
    return Block(
        "tool_result",
        text="\n".join(block.text for block in blocks if block.kind == "text"),
        id=call_id,
        name=name,
        is_error=is_error,
        parts=blocks,
    )
