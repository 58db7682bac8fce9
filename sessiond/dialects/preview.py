"""Previews: the first words of an entry, for a list or a tree.

Law: the cost of decoding depends on the length of the preview. A payload is sliced, never
decoded: only the beginning of the one string that is shown becomes text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Raw

from sessiond.dialects.base import BadLine
from sessiond.dialects.lenient_json import fields, items, text
from sessiond.limits import PREVIEW_CHARS
from sessiond.visible import ACTING

# Enough bytes for a character, even for an escaped surrogate pair and a space.
_BYTES_A_CHAR: Final = 16
_WHOLE_ESCAPES: Final = rb'"(?:[^"\\]|\\u[0-9a-fA-F]{4}|\\[^u])*'
_BLOCKS_MAX: Final = 16
# What an editor tells of itself in front of what its user says.
_TOLD_BY_EDITORS: Final = ("<ide_", "<system-reminder>")
_TOLD_CHARS_MAX: Final = 32_768
_OBEYED: Final = f"[\t\n{ACTING}]"
_WORDS: Final = (
    "summary",
    "label",
    "name",
    "thinking_level",
    "thinkingLevel",
    "model_id",
    "modelId",
    "custom_type",
    "customType",
)


def entry_preview(found: Mapping[str, Raw], chars: int = PREVIEW_CHARS) -> str:
    """Return the preview of an entry from the members of its line, native or pi's."""
    match text(found.get("type")):
        case "message":
            return _message_preview(found.get("message"), chars)
        case "custom_message":
            return _content_preview(found.get("content"), chars)
        case _:
            said = (cut(_beginning(found.get(name), chars), chars) for name in _WORDS)
            return next(filter(None, said), "")


def first_line(words: str, chars: int) -> str:
    """Return the first line that is not blank, cut to `chars` characters including "..."."""
    line = next((line for line in words.splitlines() if line.strip()), "")
    whole = cut(line, chars)
    return whole if len(whole) <= chars else cut(line, chars - len("..."))


def cut(words: str, chars: int = PREVIEW_CHARS) -> str:
    """Return one line of at most `chars` characters, and "..." if there is more.

    Characters that control a terminal (escapes, changes of direction) become U+FFFD.
    """
    line = re.sub(_OBEYED, "\ufffd", " ".join(words.split()))
    return line if len(line) <= chars else line[:chars].rstrip() + "..."


def _message_preview(message: Raw | None, chars: int) -> str:
    """Return the first text of a message, or the first tool that it calls, or its role."""
    if message is None:
        return ""
    try:
        found = fields(message)
    except BadLine:
        return ""
    for name in ("content", "contents", "blocks", "command", "summary", "text", "output"):
        if said := _content_preview(found.get(name), chars):
            return said
    role = text(found.get("role"))
    return f"[{cut(role)}]" if role else ""


def _content_preview(content: Raw | None, chars: int) -> str:
    """Return the first text in a content, which is a string or a list of blocks."""
    if content is None:
        return ""
    if bytes(memoryview(content)[:1]) == b'"':
        said, told = _apart(content, chars)
        return cut(said or told, chars)
    named = all_told = ""
    for raw in (items(content) or [])[:_BLOCKS_MAX]:
        try:
            block = fields(raw)
        except BadLine:
            continue
        said, told = _block_text(block, chars)
        if said:
            return cut(said, chars)
        all_told = all_told or told
        named = named or _block_name(block)
    return cut(all_told, chars) if all_told else cut(named)


def _apart(raw: Raw | None, chars: int) -> tuple[str, str]:
    """Return the beginning of what a text says, and of what an editor tells in front of that."""
    told = _beginning(raw, chars)
    if not told.lstrip().startswith(_TOLD_BY_EDITORS):
        return told, ""
    whole = _beginning(raw, _TOLD_CHARS_MAX).lstrip()
    while whole.startswith(_TOLD_BY_EDITORS):
        end = f"</{whole[1:].partition('>')[0]}>"
        whole = whole.partition(end)[2].lstrip()
    return whole[:chars], told


def _block_text(block: Mapping[str, Raw], chars: int) -> tuple[str, str]:
    kind = text(block.get("type")) or "text"
    if kind in {"text", "input_text", "output_text", "tool_result"}:
        said, told = _apart(block.get("text"), chars)
        return (said, told) if said or told else (_beginning(block.get("content"), chars), "")
    return "", ""


def _block_name(block: Mapping[str, Raw]) -> str:
    label = _beginning(block.get("name"), PREVIEW_CHARS) or text(block.get("type")) or ""
    return f"[{label}]" if label else ""


def _beginning(raw: Raw | None, chars: int) -> str:
    """Return the first characters of a raw string, without decoding the rest."""
    if raw is None:
        return ""
    bytes_max = chars * _BYTES_A_CHAR
    encoded = bytes(memoryview(raw)[: bytes_max + 1])
    if encoded[:1] != b'"':
        return ""
    if len(encoded) > bytes_max:
        whole = encoded.decode(errors="ignore").encode()
        found = re.match(_WHOLE_ESCAPES, whole)
        encoded = (found[0] if found else b'"') + b'"'
    return text(encoded) or ""
