"""The words around a hit of a search, in one line of bounded length.

SQLite counts a snippet in words, and a word may be as long as the entry: base64 is one.
"""

from __future__ import annotations

from typing import Final

from sessiond.limits import SNIPPET_CHARS_MAX

__all__ = ["HIT_MARK", "clipped"]

HIT_MARK: Final = "\x01\x02\x03"
"""What stands before each word that was found, in a snippet of SQLite."""
_CHARS_BEFORE: Final = 60


def clipped(snippet: str) -> str:
    """Return one line of a snippet, of which the first hit is a part, without the marks."""
    before, mark, after = snippet.partition(HIT_MARK)
    if not mark:
        before, after = "", snippet
    # Blanks are counted only where they are shown.
    before = " ".join(before[-SNIPPET_CHARS_MAX:].split()) + " " * before[-1:].isspace()
    after = " ".join(after.replace(HIT_MARK, "")[: 2 * SNIPPET_CHARS_MAX].split())
    if len(before) + len(after) <= SNIPPET_CHARS_MAX and len(snippet) <= 2 * SNIPPET_CHARS_MAX:
        return before + after
    if len(before) > _CHARS_BEFORE:
        before = "…" + before[1 - _CHARS_BEFORE :]
    room = SNIPPET_CHARS_MAX - len(before)
    return before + (after if len(after) <= room else after[: room - 1] + "…")
