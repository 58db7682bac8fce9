"""What a search finds an entry by: what people and models said, summaries and names.

Law: thinking, calls and what tools gave back are not searched; they are most of a file and
hardly ever what somebody remembers.
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw

from sessiond.dialects.base import BadLine
from sessiond.dialects.lenient_json import lenient, text
from sessiond.dialects.payload import read_payload
from sessiond.limits import SEARCH_TEXT_CHARS_MAX
from sessiond.model.entries import Header

__all__ = ["entry_words", "header_words"]

_SPEAKERS: Final = frozenset({"user", "assistant"})


def entry_words(line: bytes) -> str:
    """The text of a stored line, native or pi's; "" for what is not searched."""
    return _words(line)[:SEARCH_TEXT_CHARS_MAX]


def _words(line: bytes) -> str:
    found = lenient(line)
    match text(found.get("type")):
        case "message":
            return _said(found.get("message"), _SPEAKERS)
        case "custom_message":
            # It has its content where a message has it.
            return _said(Raw(line), None)
        case "compaction" | "branch_summary":
            return text(found.get("summary")) or ""
        case "session_info":
            return text(found.get("name")) or text(found.get("title")) or ""
        case _:
            return ""


def _said(message: Raw | None, roles: frozenset[str] | None) -> str:
    try:
        reading = read_payload(message or Raw(b"{}"))
    except BadLine:
        return ""
    if roles is not None and reading.role not in roles:
        return ""
    return "\n".join(block.text for block in reading.blocks if block.kind == "text")


def header_words(header: Header) -> str:
    """The same of a header: the project and the title that a session began with."""
    return "\n".join(word for word in (header.cwd, header.title) if word)
