"""Ids, references and roles of session lines, read without their payloads.

Law: pure, and never fails: a line that is no entry has no id. Both spellings are read, `parent_id`
and `parentId`; the meaning of a reference is the daemon's task.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

__all__ = ["Index", "Reference", "own_id", "references"]

# A string, or a bracket; text between them is skipped. A torn line ends within its string.
_TOKEN: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?$)|[{}\[\]]')
_COLON: Final = re.compile(r"\s*:\s*")
_NAMES: Final = {
    '"id"': "id",
    '"parent_id"': "parent_id",
    '"parentId"': "parent_id",
    '"target_id"': "target_id",
    '"targetId"': "target_id",
    '"first_kept_entry_id"': "first_kept_entry_id",
    '"firstKeptEntryId"': "first_kept_entry_id",
    '"from_id"': "from_id",
    '"fromId"': "from_id",
}


class _Message(Struct):
    role: Any = None


class _Line(Struct):
    id: Any = None
    message: _Message | None = None


class _Bare(Struct):
    id: Any = None


_whole = msgspec.json.Decoder(_Line)
_bare = msgspec.json.Decoder(_Bare)


class Reference(NamedTuple):
    """An id in a line: the member that holds it, and its place within its quotes."""

    member: str
    entry_id: str
    start: int
    end: int


class Index:
    """Line of each id in a text, and role of each message line."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.roles: dict[int, str] = {}
        self._lines: dict[str, int] = {}
        for number, line in enumerate(lines):
            found = _read(line)
            if isinstance(found.id, str) and number:
                self._lines[found.id] = number
            message = found.message if isinstance(found, _Line) else None
            if message is not None and isinstance(message.role, str):
                self.roles[number] = message.role

    def line_of(self, entry_id: str) -> int | None:
        """Return the line of an entry, the last one if there are several.

        None if the text has none.
        """
        return self._lines.get(entry_id)


def own_id(line: str) -> str | None:
    """Return the id of the entry in a line; None without one."""
    found = _read(line).id
    return found if isinstance(found, str) else None


def references(line: str) -> Iterator[Reference]:
    """Yield the ids at the top level of a line's object, in the order of the line."""
    depth = 0
    at = 0
    while (token := _TOKEN.search(line, at)) is not None:
        at = token.end()
        if token[0] in "{[":
            depth += 1
        elif token[0] in "}]":
            depth -= 1
        elif depth == 1 and (colon := _COLON.match(line, at)) is not None:
            # A name. The next token is its value, never a name, even if it is a string.
            value = _TOKEN.match(line, colon.end())
            if value is None or value[0] in "{[":
                continue
            at = value.end()
            if (member := _NAMES.get(token[0])) and (entry_id := _text(value[0])) is not None:
                yield Reference(member, entry_id, value.start() + 1, value.end() - 1)


def _read(line: str) -> _Line | _Bare:
    for decoder in (_whole, _bare):
        try:
            return decoder.decode(line)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            continue
    return _Bare()


def _text(quoted: str) -> str | None:
    try:
        return msgspec.json.decode(quoted, type=str)
    except (msgspec.DecodeError, UnicodeError):
        return None
