"""Text that a terminal may show safely.

Law: no character of a message or a file name can move the cursor, change a colour or change the
reading order.
"""

from __future__ import annotations

import unicodedata

from sessiond.visible import spelled_out


def one_line(text: str, width: int | None = None) -> str:
    """Return the text in one line, cut to `width` characters."""
    line = spelled_out(" ".join(text.split()))
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
