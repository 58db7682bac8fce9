"""A user's search query as a query of the full-text index.

Law: no query is a syntax error. A query is words and quoted phrases, never a language.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from msgspec import Struct

from sessiond.catalog.pieces import PIECE, indexable, spelled

__all__ = ["Match", "match_of"]

_PARTS: Final = r'"([^"]*)"?|([^\s"]+)'


class Match(Struct, frozen=True):
    """A query in the language of the index, and those of its words that have signs inside, in one spelling."""

    expression: str
    with_signs: tuple[str, ...] = ()


def match_of(query: str) -> Match | None:
    """Return the query as the index is asked; None if the query has no word.

    A hit has every word; a word of the query may be the beginning of a longer word. A quoted
    phrase must occur exactly.
    """
    parts: list[str] = []
    with_signs: list[str] = []
    for phrase, word in re.findall(_PARTS, query):
        said = indexable(phrase or word)
        kept = "".join(char if _counts(char) else " " for char in said).split()
        if kept:
            # The last piece has one character, and in a line its run may go on.
            is_open = not phrase or kept[-1].startswith(PIECE)
            parts.append(f'"{" ".join(kept)}"' + "*" * is_open)
        if word and len(kept) > 1:
            with_signs.append(spelled(word))
    return Match(" ".join(parts), tuple(with_signs)) if parts else None


def _counts(char: str) -> bool:
    """Return whether the tokenizer indexes a character: letters, numbers, marks, private use."""
    return unicodedata.category(char)[0] in "LNM" or unicodedata.category(char) == "Co"
