"""The text around a search hit, in one line of bounded length.

SQLite counts a snippet in words, and a word may be as long as its entry: base64 is one word.
Finding the best window costs SQLite time quadratic in the hits, ten seconds for 20,000 hits. So
the window of a long text begins at the first hit.
"""

from __future__ import annotations

from typing import Final

from sessiond.limits import SNIPPET_CHARS_MAX

__all__ = ["SNIPPET_SQL", "clipped"]

# The mark that SQLite puts before each hit in a snippet.
_MARK: Final = "\x01\x02\x03"
_LONG_CHARS: Final = 4_000
SNIPPET_SQL: Final = f"""
CASE WHEN length(words.text) > {_LONG_CHARS} THEN highlight(words, 0, char(1, 2, 3), '')
ELSE snippet(words, 0, char(1, 2, 3), '', '…', 24) END
"""
"""The column of the table `words` from which `clipped` makes the snippet."""
_CHARS_BEFORE: Final = 60


def clipped(snippet: str) -> str:
    """Return a snippet as one line of bounded length that shows the first hit, without marks."""
    before, mark, after = snippet.partition(_MARK)
    if not mark:
        before, after = "", snippet
    # Only blanks that are shown count.
    before = " ".join(before[-SNIPPET_CHARS_MAX:].split()) + " " * before[-1:].isspace()
    after = " ".join(after.replace(_MARK, "")[: 2 * SNIPPET_CHARS_MAX].split())
    if len(before) + len(after) <= SNIPPET_CHARS_MAX and len(snippet) <= 2 * SNIPPET_CHARS_MAX:
        return before + after
    if len(before) > _CHARS_BEFORE:
        before = "…" + before[1 - _CHARS_BEFORE :]
    room = SNIPPET_CHARS_MAX - len(before)
    return before + (after if len(after) <= room else after[: room - 1] + "…")
