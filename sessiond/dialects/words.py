"""The texts by which entries are found: words of users and models, summaries, names, calls of tools and their outputs.

Law: thinking is not searched, nor are images. Of an entry the first SEARCH_TEXT_CHARS_MAX characters are taken, and
of the arguments of one call the first SEARCH_TOOL_CHARS_MAX. Of a longer output so many are taken of both its ends: what
went wrong stands at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from msgspec import Raw

from sessiond.dialects.base import BadLine
from sessiond.dialects.lenient_json import items, lenient, text
from sessiond.dialects.payload import read_payload
from sessiond.limits import SEARCH_TEXT_CHARS_MAX, SEARCH_TOOL_CHARS_MAX
from sessiond.model.entries import Header
from sessiond.model.parsed_message import Block, ParsedMessage
from sessiond.model.searched import Part, Searched, Speaker

_SPEAKERS: Final[Mapping[str, Speaker]] = {"user": "user", "assistant": "assistant"}
_SHELL: Final = "bash"
"""The tool as which a user's own shell command is found."""
_GAP: Final = "\n\uf8ff\n"
"""A line between the ends of a text, with a word that is in no language, so that no phrase is found across."""


def entry_texts(line: bytes) -> list[Searched]:
    """Return the searchable texts of a native line, or of one of pi's."""
    texts: list[Searched] = []
    left = SEARCH_TEXT_CHARS_MAX
    for found in _texts(line):
        is_said = found.part in {Part.TITLE, Part.MESSAGE}
        room = left if is_said else min(left, SEARCH_TOOL_CHARS_MAX)
        cut = _both_ends(found.text, room) if found.part is Part.OUTPUT else found.text[:room]
        if cut:
            texts.append(msgspec.structs.replace(found, text=cut))
            left -= len(cut)
    return texts


def _both_ends(said: str, room: int) -> str:
    """Return a text, or as much of its beginning as of its end, in so many characters."""
    half = room // 2
    if len(said) <= room or half < len(_GAP):
        return said[:room]
    return said[: half - len(_GAP)] + _GAP + said[-half:]


def _texts(line: bytes) -> Iterator[Searched]:
    found = lenient(line)
    match text(found.get("type")):
        case "message":
            yield from _of_message(found.get("message"))
        case "custom_message":
            # Such an entry has a `content` like a message.
            reading = _reading(Raw(line))
            if reading is not None:
                yield Searched(Part.MESSAGE, _said(reading), "custom")
        case "compaction" | "branch_summary":
            yield Searched(Part.MESSAGE, text(found.get("summary")) or "", "summary")
        case "session_info":
            title = text(found.get("name")) or text(found.get("title")) or ""
            yield Searched(Part.TITLE, title, "title")
        case _:
            pass


def _of_message(message: Raw | None) -> Iterator[Searched]:
    reading = _reading(message or Raw(b"{}"))
    if reading is None:
        return
    if (ran := reading.command) is not None:
        yield Searched(Part.ARGUMENTS, ran.command, "user", _SHELL)
        yield Searched(Part.OUTPUT, ran.output, "user", _SHELL)
        return
    role = _SPEAKERS.get(reading.role)
    if role is not None:
        yield Searched(Part.MESSAGE, _said(reading), role)
    for block in reading.blocks:
        if block.kind == "tool_call":
            yield Searched(Part.ARGUMENTS, _arguments(block), "assistant", block.name, block.id)
        elif block.kind == "tool_result":
            yield Searched(Part.OUTPUT, block.text, "tool", block.name, block.id)


def _reading(message: Raw) -> ParsedMessage | None:
    try:
        return read_payload(message)
    except BadLine:
        return None


def _said(reading: ParsedMessage) -> str:
    return "\n".join(block.text for block in reading.blocks if block.kind == "text")


def _arguments(call: Block) -> str:
    """Return the values in the arguments of a call, a line each; of a text that is no JSON, the text."""
    given = call.arguments or Raw(b"")
    written = text(given)
    if written is None:
        return "\n".join(_values(given))
    # OpenAI writes the object as a text, and a call may have a text alone.
    inner = written.encode(errors="replace")
    return "\n".join(_values(Raw(inner))) if lenient(inner) else written


def _values(value: Raw) -> Iterator[str]:
    """Yield the texts and numbers in a value, in their order."""
    parts = items(value)
    if parts is None:
        parts = list(lenient(value).values())
    for part in parts:
        said = text(part)
        if said is not None:
            yield said
        elif bytes(memoryview(part)[:1]) in {b"[", b"{"}:
            yield from _values(part)
        elif bytes(part) not in {b"null", b"true", b"false"}:
            yield bytes(part).decode(errors="replace")


def header_text(header: Header) -> Searched:
    """Return the searchable text of a header: the project folder and the first title."""
    said = "\n".join(word for word in (header.cwd, header.title) if word)
    return Searched(Part.TITLE, said, "title")
