"""The text around a search hit, in one line of bounded length.

Rule 1: a snippet is a part of the text as it was said. SQLite marks the hits in the text as the index takes it,
and the places of the hits are brought back from there.
Rule 2: of what a tool was given or told a snippet shows the line of the hit alone.
Rule 3: a snippet shows the hit that most other words of the query follow closely. Only the first hits of a text
take part: SQLite's own choice of the best window takes ten seconds for 20,000 hits.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Final

from sessiond.catalog.pieces import PIECE, place_in, spelled_length
from sessiond.limits import SNIPPET_CHARS_MAX

__all__ = ["MARK", "snippet"]

MARK: Final = "º"
"""The mark on both sides of each hit; NFKC leaves no such character in a text of the index."""
_HITS_MAX: Final = 20
_CHARS_BEFORE: Final = 60
_CHARS_BEHIND: Final = SNIPPET_CHARS_MAX - _CHARS_BEFORE


def snippet(text: str, marked: str, *, one_line: bool = False) -> str:
    """Return one line of a text with its best hit; `marked` is the text as the index takes it, with marks.

    With `one_line` it is a line of the text, or a part of one; else it may be several, joined.
    """
    parts = marked.split(MARK, 2 * _HITS_MAX)
    places = [0, *accumulate(map(spelled_length, parts))]
    hits = range(1, len(parts), 2)

    def words(best: int) -> int:
        near = (hit for hit in hits if 0 <= places[hit] - places[best] < _CHARS_BEHIND)
        return len({parts[hit] for hit in near})

    best = max(hits, key=words, default=0)
    # The blank before a piece is the piece's own.
    at = place_in(text, places[best] - parts[best].startswith(PIECE))
    if one_line:
        begin = text.rfind("\n", 0, at) + 1
        end = text.find("\n", at)
        text, at = text[begin : None if end < 0 else end], at - begin
    return _clipped(text, at)


def _clipped(text: str, at: int) -> str:
    """Return a text as one line of bounded length that shows what is `at` a place."""
    before, after = text[max(0, at - SNIPPET_CHARS_MAX) : at], text[at : at + 2 * SNIPPET_CHARS_MAX]
    # Only blanks that are shown count.
    before = " ".join(before.split()) + " " * before[-1:].isspace()
    after = " ".join(after.split())
    if len(before) + len(after) <= SNIPPET_CHARS_MAX and len(text) <= 2 * SNIPPET_CHARS_MAX:
        return before + after
    if len(before) > _CHARS_BEFORE:
        before = "…" + before[1 - _CHARS_BEFORE :]
    room = SNIPPET_CHARS_MAX - len(before)
    return before + (after if len(after) <= room else after[: room - 1] + "…")
