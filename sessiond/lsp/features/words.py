"""Words of a session line that an editor shows: its type, role, ids and label.

Law: pure, and never fails: a line that is no JSON object has no words. Members of the object are
read, and members of the objects right below; what a message says is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

import msgspec

from sessiond import typed

# A string, or a bracket; text between them is skipped. A torn line ends within its string.
_TOKEN: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?$)|[{}\[\]]')
_COLON: Final = re.compile(r"\s*:\s*")


class WordKind(Enum):
    """Kinds of words; an editor shows each in its own colour."""

    TYPE = auto()
    ROLE = auto()
    ID = auto()
    REFERENCE = auto()
    LABEL = auto()


# Names as the programs of all dialects spell them.
_REFERENCES: Final = (
    *("parent_id", "parentId", "parentUuid", "logicalParentUuid", "target_id", "targetId"),
    *("first_kept_entry_id", "firstKeptEntryId", "from_id", "fromId", "leafUuid"),
)
_BELOW: Final[Mapping[str, WordKind]] = {
    '"role"': WordKind.ROLE,
    '"label"': WordKind.LABEL,
    **{f'"{name}"': WordKind.REFERENCE for name in _REFERENCES},
}
_TOP: Final[Mapping[str, WordKind]] = {
    **_BELOW,
    '"type"': WordKind.TYPE,
    '"kind"': WordKind.TYPE,
    '"id"': WordKind.ID,
    '"uuid"': WordKind.ID,
}


class Word(NamedTuple):
    """A word, and its place within its quotes."""

    kind: WordKind
    start: int
    end: int


class NamedId(NamedTuple):
    """An id in a line, and its place within its quotes."""

    entry_id: str
    start: int
    end: int
    is_own: bool
    """True for the id of the entry in the line."""


def words(line: str, upto: int | None = None) -> Iterator[Word]:
    """Yield the words of a line in their order; with `upto`, of its first so many characters."""
    end = len(line) if upto is None else min(upto, len(line))
    levels: list[str] = []
    at = 0
    while (token := _TOKEN.search(line, at, end)) is not None:
        at = token.end()
        if token[0] in "{[":
            levels.append(token[0])
            continue
        if token[0] in "}]":
            if levels:
                levels.pop()
            continue
        if not 1 <= len(levels) <= 2 or levels[-1] == "[" or levels[0] == "[":
            continue
        colon = _COLON.match(line, at, end)
        if colon is None:
            continue
        # A name. The next token is its value, never a name, even if it is a string.
        value = _TOKEN.match(line, colon.end(), end)
        if value is None or value[0] in "{[":
            continue
        at = value.end()
        kind = (_TOP if len(levels) == 1 else _BELOW).get(token[0])
        if kind is not None and value[0].endswith('"') and len(value[0]) > 2:
            yield Word(kind, value.start() + 1, value.end() - 1)


def named_ids(line: str) -> Iterator[NamedId]:
    """Yield the ids in a line, in their order."""
    for word in words(line):
        if word.kind not in {WordKind.ID, WordKind.REFERENCE}:
            continue
        try:
            entry_id = typed.decode(f'"{line[word.start : word.end]}"', str)
        except (msgspec.DecodeError, UnicodeError):
            continue
        yield NamedId(entry_id, word.start, word.end, word.kind is WordKind.ID)
