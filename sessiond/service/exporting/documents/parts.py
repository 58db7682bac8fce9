"""Messages as parts that a page shows: texts, thoughts, calls, results, pictures, data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from sessiond.model.parsed_message import Block, ParsedMessage, ShellCommand
from sessiond.service.exporting.documents.visible import one_line, visible
from sessiond.session.context.stringify import object_in

_NAME_CHARS = 200


class Part(Struct, frozen=True):
    """A piece of an entry. `text` is Markdown in a part of the kind "text", and plain elsewhere."""

    kind: Literal["text", "thinking", "call", "result", "image", "data", "note"]
    text: str
    name: str = ""
    is_error: bool = False


def text_part(text: str) -> Part:
    """Return a text that is Markdown, as models and people write it."""
    return Part("text", visible(text))


def data_part(name: str, data: Raw | bytes | None) -> Part:
    """Return JSON as a part of several lines."""
    return Part("data", visible(pretty(data)), _name(name))


def message_parts(message: ParsedMessage) -> list[Part]:
    """Return the parts of a message, in order."""
    found = [part for block in message.blocks for part in _parts_of(block)]
    if message.command is not None:
        found.extend(_command_parts(message.command))
    return found


def pretty(data: Raw | bytes | None) -> str:
    """Return JSON in several lines; what is no JSON stays as it is."""
    if not data:
        return ""
    try:
        return msgspec.json.format(bytes(data), indent=2).decode(errors="replace")
    except msgspec.DecodeError:
        return bytes(data).decode(errors="replace")


def _parts_of(block: Block) -> Iterator[Part]:
    match block.kind:
        case "text":
            yield text_part(block.text)
        case "thinking":
            text = "(not shown by the provider)" if block.redacted else block.text
            yield Part("thinking", visible(text))
        case "tool_call":
            arguments = "" if block.arguments is None else pretty(object_in(block.arguments))
            yield Part("call", visible(arguments), _name(block.name))
        case "tool_result":
            yield from _result_parts(block)
        case "image":
            yield Part("image", _picture(block))
        case "other":
            yield data_part(block.spelling or "content", block.raw)


def _result_parts(block: Block) -> Iterator[Part]:
    yield Part("result", visible(block.text), _name(block.name), is_error=block.is_error)
    for part in block.parts:
        if part.kind != "text":
            yield from _parts_of(part)


def _command_parts(command: ShellCommand) -> Iterator[Part]:
    yield Part("call", visible(command.command), "shell command")
    failed = command.cancelled or bool(command.exit_code)
    yield Part("result", visible(command.output), "output", is_error=failed)


def _picture(block: Block) -> str:
    """Return a description: a page loads no image."""
    about = [block.mime_type or "image"]
    if block.url:
        about.append(block.url)
    elif block.size:
        about.append(f"{block.size} characters of base64")
    return one_line(", ".join(about), _NAME_CHARS)


def _name(name: str) -> str:
    return one_line(name, _NAME_CHARS)
