"""The text of a document as its editor has it: lines, edits, and columns as editors count.

Law: only `\\n`, `\\r\\n` and `\\r` end a line, as the language server protocol has it. Python's
`splitlines`, which pygls uses, also ends one at U+2028, which JSON may hold.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from msgspec import Struct

__all__ = ["Encoding", "Position", "Text"]

_LINES: Final = re.compile("[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+$")


class Position(NamedTuple):
    """A position as the editor counts: both numbers from 0, `column` in units of its encoding."""

    line: int
    column: int


class Encoding(Struct, frozen=True):
    """A unit in which an editor counts columns."""

    codec: str
    unit_bytes: int

    def units(self, text: str) -> int:
        """Return the length of `text` in units."""
        if text.isascii():
            return len(text)
        return len(text.encode(self.codec, "surrogatepass")) // self.unit_bytes

    def index(self, line: str, units: int) -> int:
        """Return the index in `line` of a column; the line's end if the line is shorter."""
        if line.isascii():
            return min(units, len(line))
        encoded = line.encode(self.codec, "surrogatepass")
        return len(encoded[: units * self.unit_bytes].decode(self.codec, "replace"))


class Text:
    """Lines, each with its end; behind the last end there is one more line, which may be empty."""

    def __init__(self, text: str, encoding: Encoding) -> None:
        self.encoding = encoding
        self.version = 0
        """Number of changes so far."""
        self._lines = _split(text)

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def lines(self) -> tuple[str, ...]:
        """Current lines, as a tuple that a thread may read."""
        return tuple(self._lines)

    def line(self, number: int) -> str:
        """Return a line without its end; "" behind the last line."""
        if 0 <= number < len(self._lines):
            return self._lines[number].rstrip("\r\n")
        return ""

    def index(self, place: Position) -> int:
        """Return the index of a place in its line."""
        return self.encoding.index(self.line(place.line), place.column)

    def column(self, number: int, index: int) -> int:
        """Return the column of an index in a line."""
        return self.encoding.units(self.line(number)[:index])

    def set(self, text: str) -> None:
        """Replace the whole text."""
        self._lines = _split(text)
        self.version += 1

    def replace(self, start: Position, end: Position, text: str) -> None:
        """Replace the text between two places; a place behind the text is the text's end."""
        last = len(self._lines) - 1
        if start.line > last:
            start = end = Position(last, len(self._lines[last]))
        elif end.line > last:
            end = Position(last, len(self._lines[last]))
        head = self.line(start.line)[: self.index(start)]
        tail = self._lines[end.line][self.index(end) :]
        fresh = _split(head + text + tail)
        if end.line < last and not fresh[-1]:
            fresh.pop()
        self._lines[start.line : end.line + 1] = fresh
        self.version += 1


def _split(text: str) -> list[str]:
    lines = _LINES.findall(text)
    if not lines or lines[-1].endswith(("\r", "\n")):
        lines.append("")
    return lines
