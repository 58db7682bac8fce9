"""From what a user types to what the index of words understands.

Law: no query is an error of syntax. It is words and quoted phrases, never a language.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

__all__ = ["match_of"]

_PARTS: Final = re.compile(r'"([^"]*)"?|([^\s"]+)')


def match_of(query: str) -> str | None:
    """The query in the language of the index; None if there is no word in it.

    Every word has to be there, the last letters of a word may be missing; what stands in
    quotes is there as it stands.
    """
    parts: list[str] = []
    for phrase, word in _PARTS.findall(query):
        kept = "".join(char if _counts(char) else " " for char in phrase or word).split()
        if kept:
            parts.append(f'"{" ".join(kept)}"' + ("" if phrase else "*"))
    return " ".join(parts) or None


def _counts(char: str) -> bool:
    """Whether the tokenizer sees it: letters, numbers, marks; private use is a letter to it."""
    return unicodedata.category(char)[0] in "LNM" or unicodedata.category(char) == "Co"
