"""Text as a page may show it: no character acts on the screen or on the reading order."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["one_line", "visible"]

_LINE_ENDS: Final = re.compile("\r\n|\u2028|\u2029")
# C0 without tab and line feed, DEL, C1, half characters, line and paragraph separators, the BOM,
# and the marks, embeddings, overrides and isolates of writing direction.
_ACTING: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def visible(text: str) -> str:
    r"""Return the text with each such character spelled out, as in JSON: `\u202e`."""
    if text.isascii() and text.isprintable():
        return text
    return _ACTING.sub(lambda found: f"\\u{ord(found[0]):04x}", _LINE_ENDS.sub("\n", text))


def one_line(text: str, chars: int) -> str:
    """Return the text in one line, cut to `chars` characters."""
    line = visible(" ".join(text[: chars * 16].split()))
    return line if len(line) <= chars else line[: chars - 1] + "…"
