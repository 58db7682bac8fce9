"""Text as a terminal may show it.

Law: nothing that a message or a file name holds can move the cursor, change a colour
or turn the order of what is read.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["counted", "one_line", "printable"]

# C0 without tab and line feed, DEL, C1, line and paragraph separators, and the marks and
# overrides of writing direction, which make text look like another.
_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)


def printable(text: str) -> str:
    r"""The text with every control character spelled out, as in JSON: `\u001b`.

    So a JSON document stays the same document.
    """
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def one_line(text: str, width: int | None = None) -> str:
    """The text in one line, cut to so many characters."""
    line = printable(" ".join(text.split()))
    if width is not None and len(line) > width:
        return line[: width - 1] + "…"
    return line


def counted(count: int, what: str) -> str:
    """So many of them: "1 entry", "2 entries"."""
    if count == 1:
        return f"1 {what}"
    return f"{count} {what[:-1]}ies" if what.endswith("y") else f"{count} {what}s"
