"""The text of a document as its editor has it: lines, edits, and columns as editors count.

Law: only `\\n`, `\\r\\n` and `\\r` end a line, as the language server protocol has it. Python's
`splitlines`, which pygls uses, also ends one at U+2028, which JSON may hold. An edit costs what its
own lines cost, however long the text is.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from io import StringIO
from typing import Final, NamedTuple

from msgspec import Struct

from sessiond.lsp.text.disposal import free_in_thread
from sessiond.lsp.text.runs import Runs

_LINE_ENDS: Final = ("\r", "\n")
# Lines that an edit removes; more of them are freed by a thread.
_FREED_AT_ONCE_MAX: Final = 1_000


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
        """Return the index in `line` of a column; the line's end if the line is shorter.

        The index of a column within a character is the place behind the character.
        """
        # No character is less than a unit.
        before = line[: max(0, units)]
        if before.isascii():
            return len(before)
        encoded = before.encode(self.codec, "surrogatepass")
        if len(encoded) == len(before) * self.unit_bytes:
            return len(before)
        decoder = codecs.getincrementaldecoder(self.codec)("surrogatepass")
        count = len(decoder.decode(encoded[: units * self.unit_bytes]))
        return count + bool(decoder.getstate()[0])


class Edit(NamedTuple):
    """Lines that an edit changed: `lines` are in the place of those from `first` to `last`.

    The line `last` is the first one that stays.
    """

    first: int
    last: int
    lines: Sequence[str]


class Text:
    """Lines, each with its end; behind the last end there is one more line, which may be empty."""

    def __init__(self, text: str | Sequence[str], encoding: Encoding) -> None:
        """Take the text, or its lines as `split` returns them."""
        self.encoding = encoding
        self.version = 0
        """Number of changes so far."""
        self._lines = Runs(_split(text))

    def __len__(self) -> int:
        return len(self._lines)

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    @property
    def lines(self) -> tuple[str, ...]:
        """All lines; a copy that costs as much as the text has lines."""
        return tuple(self._lines)

    def copy(self) -> Text:
        """Return a copy for a thread; costs next to nothing."""
        copied = Text((), self.encoding)
        copied.version = self.version
        copied._lines = self._lines.copy()
        return copied

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

    def set(self, text: str | Sequence[str]) -> Edit:
        """Replace the whole text."""
        return self._splice(0, len(self._lines), _split(text))

    def replace(self, start: Position, end: Position, text: str | Sequence[str]) -> Edit:
        """Replace the text between two places; a place behind the text is the text's end."""
        (first, begin), (last, rest) = (self._found(place) for place in sorted((start, end)))
        head, tail = self._lines[first][:begin], self._lines[last][rest:]
        if not head and first and self._lines[first - 1].endswith("\r"):
            # A line feed that comes to stand behind this carriage return ends the same line.
            first -= 1
            head = self._lines[first]
        fresh: Sequence[str] = _seamed(head, split(text) if isinstance(text, str) else text, tail)
        if last + 1 == len(self._lines):
            fresh = _closed(fresh)
        return self._splice(first, last + 1, fresh)

    def _found(self, place: Position) -> tuple[int, int]:
        """Return the line of a place, and the index in the line."""
        last = len(self._lines) - 1
        if place.line > last:
            return last, len(self.line(last))
        return max(0, place.line), self.index(place)

    def _splice(self, first: int, last: int, lines: Sequence[str]) -> Edit:
        gone = self._lines.splice(first, last, lines).gone
        if last - first > _FREED_AT_ONCE_MAX:
            free_in_thread(gone)
        self.version += 1
        return Edit(first, last, lines)


class Splitter:
    """Lines of a text that comes in pieces; a piece may end anywhere."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._rest: list[str] = []

    def feed(self, piece: str) -> None:
        """Add a piece of the text."""
        if self._rest and (self._rest[-1].endswith("\r") or _is_half(self._rest[-1])):
            # The piece before may have ended within a line's end, or within a pair.
            piece = joined(self._rest.pop(), piece)
        lines = split(piece)
        if len(lines) > 1 or (lines and lines[0].endswith("\n")):
            lines[0] = "".join([*self._rest, lines[0]])
            self._rest.clear()
        if lines and not lines[-1].endswith("\n"):
            self._rest.append(lines.pop())
        self._lines += lines

    def end(self) -> list[str]:
        """Return the lines; the last one may have no end."""
        if self._rest:
            self._lines.append("".join(self._rest))
        return self._lines


def split(text: str) -> list[str]:
    """Return the lines of a text; the last one may have no end."""
    return list(StringIO(text, newline=""))


def joined(left: str, right: str) -> str:
    """Return two texts as one; halves of a pair that come together are one character."""
    if _is_half(left) and "\udc00" <= right[:1] <= "\udfff":
        pair = (left[-1] + right[0]).encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        return left[:-1] + pair + right[1:]
    return left + right


def _is_half(text: str) -> bool:
    """Return whether a text ends with the first half of a pair."""
    return "\ud800" <= text[-1:] <= "\udbff"


def _split(text: str | Sequence[str]) -> Sequence[str]:
    return _closed(split(text) if isinstance(text, str) else text)


def _closed(lines: Sequence[str]) -> Sequence[str]:
    """Return the lines of a whole text, which end with a line without an end."""
    if not lines or lines[-1].endswith(_LINE_ENDS):
        return [*lines, ""]
    return lines


def _seamed(head: str, lines: Sequence[str], tail: str) -> list[str]:
    """Return lines with text before the first and behind the last one."""
    found = [*_seam(head, lines[0]), *lines[1:]] if lines else [head]
    found += _seam(found.pop(), tail)
    return found


def _seam(left: str, right: str) -> list[str]:
    is_ended = left.endswith("\n") or (left.endswith("\r") and not right.startswith("\n"))
    if not is_ended:
        return [joined(left, right)]
    return [left, right] if right else [left]
