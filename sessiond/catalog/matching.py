"""A user's search query as a query of the full-text index.

Law: no query is a syntax error. A query is words and quoted phrases, never a language.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

__all__ = ["match_of"]

_PARTS: Final = r'"([^"]*)"?|([^\s"]+)'


def match_of(query: str) -> str | None:
    """Return the query in the language of the index; None if the query has no word.

    A hit has every word; a word of the query may be the beginning of a longer word. A quoted
    phrase must occur exactly.
    """
    parts: list[str] = []
    for phrase, word in re.findall(_PARTS, query):
        kept = "".join(char if _counts(char) else " " for char in phrase or word).split()
        if kept:
            parts.append(f'"{" ".join(kept)}"' + ("" if phrase else "*"))
    return " ".join(parts) or None


def _counts(char: str) -> bool:
    """Return whether the tokenizer indexes a character: letters, numbers, marks, private use."""
    return unicodedata.category(char)[0] in "LNM" or unicodedata.category(char) == "Co"
