"""The decoding of message payloads into readings.

Law: only this module decodes payloads, and only through `read_payload`. Code that passes a
message on (file, event, context, list, tree) never calls this module; a test counts the calls.
Lists need one member of a payload, `usage`, which the module `usage` reads alone, and what an
answer leaves to do, which `outcome_of` finds without decoding the rest.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec
from msgspec import Raw, Struct

from sessiond import typed
from sessiond.dialects.base import BadLine
from sessiond.dialects.lenient_json import fields, is_null, items, lenient, text
from sessiond.dialects.usage import usage_in
from sessiond.dialects.usual import usual_reading
from sessiond.model.parsed_message import (
    FAILED_STOPS,
    Block,
    Outcome,
    ParsedMessage,
    ShellCommand,
)

_TEXT: Final = frozenset({"text", "input_text", "output_text"})
_CALL: Final = frozenset({"toolCall", "tool_call", "tool_use"})
_RESULT: Final = frozenset({"toolResult", "tool_result", "tool"})
_IMAGE: Final = frozenset({"image", "image_url", "input_image"})
_SUMMARY: Final = frozenset(
    {"branchSummary", "branch_summary", "compactionSummary", "compaction_summary"}
)
_STOP: Final = ("stopReason", "stop_reason", "finish_reason")
_DATA_URL: Final = r"(?s)data:([\w.+/-]+);base64,(.*)"
_ADDRESS: Final = r"[A-Za-z][A-Za-z0-9+.-]*:"
_WHOLE: Final = rb"-?\d{1,18}"


class _MessageLine(Struct, gc=False):
    message: Raw


def reading_of(line: bytes) -> ParsedMessage | None:
    """Return the decoded message of a stored line; None if the line has none."""
    try:
        message: Raw | None = typed.decode(line, _MessageLine).message
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        message = lenient(line).get("message")
    return None if message is None else read_message(message)


def read_message(message: bytes | Raw) -> ParsedMessage | None:
    """Return the decoded message; None if the message is no object."""
    try:
        # A Raw of a Raw would be a copy.
        return read_payload(message if isinstance(message, Raw) else Raw(message))
    except BadLine:
        return None


def read_payload(message: Raw) -> ParsedMessage:
    """Return the decoded message. Raises BadLine if the message is no object."""
    usual = usual_reading(message)
    return _read(fields(message)) if usual is None else usual


def outcome_of(message: Raw) -> Outcome:
    """Return what the message of an assistant leaves to do, without decoding what the message says."""
    found = lenient(message)
    if _first(found, _STOP) in FAILED_STOPS:
        return "failed"
    calls = any(items(found.get(name, b"")) for name in ("tool_calls", "toolCalls"))
    parts = items(found.get("content", found.get("contents", b""))) or ()
    for part in (*parts, *(items(found.get("blocks", b"")) or ())):
        block = lenient(part)
        calls = calls or (text(block.get("type")) or _untold(block)) in _CALL
    return "calls" if calls else "said"


def _read(found: dict[str, Raw]) -> ParsedMessage:
    role = text(found.get("role")) or ""
    if role == "custom" and text(found.get("custom_role")) == "assistant":
        # The message stands for an extension's entry, but the assistant is its speaker.
        role = "assistant"
    content = found.get("content", found.get("contents"))
    said = _blocks(content)
    said += [_image(lenient(raw)) for raw in items(found.get("images", b"")) or ()]
    said += _blocks(found.get("blocks"))
    command = None
    if role in _RESULT:
        said = _as_result(found, said)
    elif role == "bashExecution":
        command = _command(found)
        said = [Block("text", text=f"$ {command.command}\n{command.output}")]
    elif content is None and role in _SUMMARY:
        said = [Block("text", text=text(found.get("summary")) or "")]
    if (thought := text(found.get("thinking"))) and role == "assistant":
        said.insert(0, Block("thinking", text=thought))
    for raw in items(found.get("tool_calls", found.get("toolCalls", b""))) or ():
        said.append(_call(lenient(raw)))
    usage = found.get("usage")
    return ParsedMessage(
        role=role,
        blocks=tuple(said),
        model_id=text(found.get("model")),
        provider=text(found.get("provider")),
        usage=None if usage is None or is_null(usage) else usage_in(usage),
        stop_reason=_first(found, _STOP),
        command=command,
    )


def _blocks(content: Raw | None) -> list[Block]:
    if content is None:
        return []
    whole = text(content)
    if whole is not None:
        return [Block("text", text=whole)]
    return [block for raw in items(content) or [] for block in _blocks_in(raw)]


def _blocks_in(raw: Raw) -> list[Block]:
    """Return the block, or a block for each image of one of Operator's image blocks."""
    found = lenient(raw)
    images = items(found["images"]) if "images" in found else None
    if images is None or text(found.get("type")) != "image":
        return [_block(raw, found)]
    return [_operators_image(image) for image in images]


def _operators_image(raw: Raw) -> Block:
    """Return the image that an address, a data URL, bytes in base64 or an object gives."""
    given = text(raw)
    if given is None:
        return _image(lenient(raw))
    if re.match(_ADDRESS, given):
        return _image({"url": raw})
    return Block("image", data=given, size=len(raw))


def _block(raw: Raw, found: dict[str, Raw]) -> Block:
    word = text(found.get("type")) or _untold(found)
    if word in _TEXT:
        return Block("text", text=text(found.get("text")) or text(found.get("content")) or "")
    if word == "thinking":
        said = text(found.get("thinking")) or text(found.get("content")) or ""
        signature = _first(found, ("thinkingSignature", "signature"))
        redacted = _is_true(found, "redacted")
        return Block("thinking", text=said, signature=signature, redacted=redacted)
    if word in _CALL:
        return _call(found, word)
    if word in _RESULT:
        return _result(found, _blocks(found.get("content")))
    if word in _IMAGE:
        return _image(found)
    return Block("other", spelling=word, raw=raw)


def _untold(found: dict[str, Raw]) -> str:
    """Return the type of a block without a `type`, guessed from its members."""
    if text(found.get("id")) or text(found.get("name")):
        return "toolCall"
    if text(found.get("thinking")):
        return "thinking"
    return "image" if text(found.get("mimeType")) else "text"


def _image(found: dict[str, Raw]) -> Block:
    """Return an image block from pi's form, Anthropic's `source` or an OpenAI data URL."""
    size = max((len(raw) for raw in found.values()), default=0)
    within = found | lenient(found.get("source", b"")) | lenient(found.get("image_url", b""))
    data = text(within.get("data")) or ""
    mime_type = _first(within, ("mimeType", "mime_type", "media_type"))
    url = "" if data else _first(within, ("url", "image_url"))
    inline = re.fullmatch(_DATA_URL, url)
    if inline is not None:
        mime_type, data, url = inline[1], inline[2], ""
    return Block("image", data=data, mime_type=mime_type, url=url, size=size)


def _call(found: dict[str, Raw], word: str = "function") -> Block:
    """Return a tool call block; OpenAI nests name and arguments in `function`."""
    within = lenient(found.get("function", b""))
    arguments = next((found[n] for n in ("arguments", "args", "input") if n in found), None)
    return Block(
        "tool_call",
        id=text(found.get("id")) or "",
        name=text(within.get("name", found.get("name"))) or "",
        arguments=within.get("arguments", arguments),
        spelling=word,
    )


def _as_result(found: dict[str, Raw], said: list[Block]) -> list[Block]:
    """Return the blocks as one tool result, unless they contain tool results already."""
    if any(block.kind == "tool_result" for block in said):
        return said
    return [_result(found, said)]


def _result(found: dict[str, Raw], said: list[Block]) -> Block:
    failed = found.get("isError", found.get("is_error"))
    return Block(
        "tool_result",
        text="\n".join(block.text for block in said if block.kind == "text"),
        id=_first(found, ("toolCallId", "tool_call_id", "tool_use_id", "id")),
        name=_first(found, ("toolName", "name")),
        is_error=failed is not None and bytes(failed) == b"true",
        parts=tuple(said),
    )


def _command(found: dict[str, Raw]) -> ShellCommand:
    code = bytes(found.get("exitCode", b""))
    return ShellCommand(
        text(found.get("command")) or "",
        text(found.get("output")) or "",
        exit_code=int(code) if re.fullmatch(_WHOLE, code) else None,
        cancelled=_is_true(found, "cancelled"),
        truncated=_is_true(found, "truncated"),
        full_output_path=text(found.get("fullOutputPath")),
        excluded=_is_true(found, "excludeFromContext"),
    )


def _is_true(found: dict[str, Raw], name: str) -> bool:
    return bytes(found.get(name, b"")) == b"true"


def _first(found: dict[str, Raw], names: tuple[str, ...]) -> str:
    """Return the first of these members that is a text and not empty, else ""."""
    return next((said for name in names if (said := text(found.get(name)))), "")
