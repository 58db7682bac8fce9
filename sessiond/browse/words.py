r"""Texts of entries as a screen shows them.

Law: a text of a session is data. No character of it can move the cursor, change a colour, change
the reading order or act as markup: `spelled` writes such characters out, like `\u001b`, and every
widget of this package takes plain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final, cast

import msgspec
from rich.cells import cell_len, set_cell_size

from sessiond.visible import counted, spelled_out

READABLE_CHARS: Final = 50_000
"""Longest text of an entry on the screen; the rest is left out with a note."""
_PREVIEW_CHARS: Final = 240
_SHORT_CHARS: Final = 8
_RANDOM: Final = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Members that hold the words of a message, in the spelling of several programs.
_CONTENTS: Final = ("content", "contents", "blocks", "command", "summary", "text", "output")
_CALLS: Final = ("toolCalls", "tool_calls")
_ARGUMENTS: Final = ("arguments", "input", "args", "parameters")
# Members of an entry that say in a few words what the entry is.
_NAMES: Final = ("summary", "label", "name", "thinking_level", "model_id", "custom_type")
_ENVELOPE: Final = frozenset({"type", "id", "parent_id", "timestamp", "head", "atom", "atom_of"})


def spelled(text: str) -> str:
    r"""Return the text with each character that acts on a screen written out, like `\u001b`."""
    return spelled_out(text.replace("\r\n", "\n").replace("\t", "    "))


def line_of(text: str, chars: int = _PREVIEW_CHARS) -> str:
    """Return the text in one line, cut to a number of characters."""
    line = spelled(" ".join(text[: chars * 8].split()))
    return line if len(line) <= chars else line[: chars - 1] + "…"


def fitted(text: str, width: int) -> str:
    """Return the text cut to a number of columns; a cut text ends in an ellipsis."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1) + "…" if width > 0 else ""


def short_id(entry_or_session_id: str) -> str:
    """Return the end of a random id; an id of another form is a name and stays whole."""
    if _RANDOM.fullmatch(entry_or_session_id):
        return entry_or_session_id[-_SHORT_CHARS:]
    return spelled(entry_or_session_id)


def clock(timestamp: object) -> str:
    """Return a time of RFC 3339 as local date and minute; an empty text for any other value."""
    if not isinstance(timestamp, str):
        return ""
    try:
        return datetime.fromisoformat(timestamp).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError):
        return ""


def kind_of(entry: Mapping[str, Any]) -> str:
    """Return the role of a message, or the type of any other entry."""
    message = _object(entry.get("message"))
    role = message.get("role") if entry.get("type") == "message" else None
    return line_of(str(role or entry.get("type", "entry")), 24)


def preview(entry: Mapping[str, Any]) -> str:
    """Return the first words of an entry in one line."""
    parts = _words_of(entry)
    return line_of(next((part for part in parts if part.strip()), ""))


def readable(entry: Mapping[str, Any]) -> str:
    """Return the whole text of an entry as a person reads it."""
    parts = [part for part in _words_of(entry) if part]
    return _bounded("\n\n".join(parts)) or "(no text; Tab shows the JSON)"


def raw_json(raw: bytes) -> str:
    """Return the stored JSON of an entry, indented; numbers keep their spelling."""
    text = msgspec.json.format(raw, indent=2).decode("utf-8", "replace")
    return _bounded(text)


def _bounded(text: str) -> str:
    """Return the text spelled, and cut if it is longer than a screen is read."""
    if len(text) <= READABLE_CHARS:
        return spelled(text)
    more = len(text) - READABLE_CHARS
    rest = f"[{counted(more, 'more character')}; E exports the session]"
    return f"{spelled(text[:READABLE_CHARS])}\n\n{rest}"


def _words_of(entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield the parts of an entry's text, the parts that a person wants first."""
    if entry.get("type") == "message":
        yield from _words_of_message(_object(entry.get("message")))
        return
    if "content" in entry:
        yield from _words_of_content(entry["content"])
    for name in _NAMES:
        if isinstance(entry.get(name), str):
            yield str(entry[name])
    own = {name: value for name, value in entry.items() if name not in {*_ENVELOPE, *_NAMES}}
    own.pop("content", None)
    if own:
        yield _json(own)


def _words_of_message(message: Mapping[str, Any]) -> Iterator[str]:
    for name in _CONTENTS:
        if message.get(name):
            yield from _words_of_content(message[name])
    for name in _CALLS:
        calls = message.get(name)
        for call in _objects(calls):
            yield _call(_object(call.get("function")) or call)


def _words_of_content(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, dict):
        yield _words_of_block(cast("dict[str, Any]", content))
    elif isinstance(content, list):
        for block in cast("list[object]", content):
            yield block if isinstance(block, str) else _words_of_block(_object(block))


def _words_of_block(block: Mapping[str, Any]) -> str:
    kind = str(block.get("type", ""))
    if isinstance(block.get("text"), str):
        return str(block["text"])
    if isinstance(block.get("thinking"), str):
        return f"[thinking]\n{block['thinking']}"
    if isinstance(block.get("name"), str) and any(name in block for name in _ARGUMENTS):
        return _call(block)
    if "content" in block:
        return "\n".join([f"[{kind}]", *_words_of_content(block["content"])])
    if "image" in kind:
        return f"[{kind} {block.get('mimeType') or block.get('mime_type') or ''}]"
    return _json(block)


def _call(call: Mapping[str, Any]) -> str:
    given: object = next((call[name] for name in _ARGUMENTS if name in call), None)
    told = given if isinstance(given, str) else _json(given)
    return f"[call of {call.get('name', 'a tool')}]\n{told}"


def _json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _objects(value: object) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, list):
        yield from map(_object, cast("list[object]", value))
