"""The text around a search hit, in one line of bounded length.

Rule 1: a snippet is a part of the text as it was said. The hits are looked for in the text as the index takes it,
and their places are brought back from there.
Rule 2: of what a tool was given or told a snippet shows the line of the hit alone.
Rule 3: a snippet shows the hit that most other words of the query follow closely. Only the first hits of a text
take part: SQLite's own choice of the best window takes ten seconds for 20,000 hits.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, islice, pairwise
from typing import Final

from sessiond.catalog.matching import Phrase
from sessiond.catalog.pieces import PIECE, place_in, spelled_length
from sessiond.limits import SNIPPET_CHARS_MAX

_HITS_MAX: Final = 20
_CHARS_BEFORE: Final = 60
_CHARS_BEHIND: Final = SNIPPET_CHARS_MAX - _CHARS_BEFORE


def snippet(text: str, said: str, phrases: Sequence[Phrase], *, one_line: bool = False) -> str:
    """Return one line of a text with its best hit; `said` is the text as the index takes it.

    With `one_line` it is a line of the text, or a part of one; else it may be several, joined.
    """
    hits = sorted(
        (place, number)
        for number, phrase in enumerate(phrases)
        for place in islice(phrase.places(said), _HITS_MAX)
    )
    begins = [0, *(place for place, _ in hits)]
    lengths = (spelled_length(said[begin:end]) for begin, end in pairwise(begins))
    # Each hit's place in the one spelling. The blank before a piece is the piece's own.
    spots = [
        (place - said.startswith(PIECE, at), number)
        for place, (at, number) in zip(accumulate(lengths), hits, strict=True)
    ]

    def words(best: tuple[int, int]) -> int:
        return len({number for at, number in spots if 0 <= at - best[0] < _CHARS_BEHIND})

    place, _ = max(spots, key=words, default=(0, 0))
    at = place_in(text, place)
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
