"""Text that a terminal may show safely.

Law: no character of a message or a file name can move the cursor, change a colour or change the
reading order.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

__all__ = ["cells", "counted", "fitted", "one_line", "printable"]

# C0 without tab and line feed, DEL, C1, line and paragraph separators, and the marks and
# overrides of writing direction, which make a text look like another text.
_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)


def printable(text: str) -> str:
    r"""Return the text with every control character spelled out, as in JSON: `\u001b`.

    So a JSON document keeps its meaning.
    """
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def one_line(text: str, width: int | None = None) -> str:
    """Return the text in one line, cut to `width` characters."""
    line = printable(" ".join(text.split()))
    if width is not None and len(line) > width:
        return line[: width - 1] + "…"
    return line


def cells(text: str) -> int:
    """Return the number of terminal columns that the text takes."""
    if text.isascii():
        return len(text)
    return sum(map(_width, text))


def fitted(text: str, width: int) -> str:
    """Return the text cut to `width` columns; a cut text ends in an ellipsis."""
    if cells(text) <= width:
        return text
    room = max(width - 1, 0)
    taken = 0
    for at, character in enumerate(text):
        taken += _width(character)
        if taken > room:
            return text[:at].rstrip() + "…"
    return text


def _width(character: str) -> int:
    if unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


def counted(count: int, what: str) -> str:
    """Return the count with its noun: "1 entry", "2 entries"."""
    if count == 1:
        return f"1 {what}"
    return f"{count} {what[:-1]}ies" if what.endswith("y") else f"{count} {what}s"
