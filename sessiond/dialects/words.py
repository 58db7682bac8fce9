"""The searchable text of entries: words of users and models, summaries and names.

Law: thinking, tool calls and tool results are not searched. They are most of a file, and users
hardly ever search for them.
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
    """Return the searchable text of a native line, or of one of pi's; "" if there is none."""
    return _words(line)[:SEARCH_TEXT_CHARS_MAX]


def _words(line: bytes) -> str:
    found = lenient(line)
    match text(found.get("type")):
        case "message":
            return _said(found.get("message"), _SPEAKERS)
        case "custom_message":
            # Such an entry has a `content` like a message.
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
    """Return the searchable text of a header: the project folder and the first title."""
    return "\n".join(word for word in (header.cwd, header.title) if word)
