"""A user's search query as a query of the full-text index.

Law: no query is a syntax error. A query is words and quoted phrases, never a language.

The index knows the places of words, but of pieces only which text has them, so that a run of pieces is found by the
texts that have them all; `holds` then says in which of these texts the run stands.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from msgspec import Struct

from sessiond.catalog.pieces import PIECE, indexable, spelled

_PARTS: Final = r'"([^"]*)"?|([^\s"]+)'


class Phrase(Struct, frozen=True):
    """A part of a query: words and pieces that stand one behind the other, with nothing but signs between.

    An open phrase may end within a word.
    """

    parts: tuple[str, ...]
    is_open: bool

    @property
    def has_pieces(self) -> bool:
        """True if a part is a piece."""
        return any(map(_is_piece, self.parts))

    def places(self, said: str) -> Iterator[int]:
        """Yield the places of the phrase in a text as the index takes it."""
        first, rest = self.parts[0], self.parts[1:]
        at = said.find(first)
        while at >= 0:
            if not (at and _counts(said[at - 1])) and self._goes_on(said, at + len(first), rest):
                yield at
            at = said.find(first, at + 1)

    def _goes_on(self, said: str, end: int, rest: Sequence[str]) -> bool:
        for part in rest:
            begin = _end_of_signs(said, end)
            if begin == end or not said.startswith(part, begin):
                return False
            end = begin + len(part)
        return self.is_open or end == len(said) or not _counts(said[end])

    def words(self) -> Iterator[str]:
        """Yield what the index is asked for the words between pieces, which stand one behind the other."""
        runs = [(is_piece, [*run]) for is_piece, run in groupby(self.parts, _is_piece)]
        for number, (is_piece, run) in enumerate(runs, 1):
            if not is_piece:
                yield f'"{" ".join(run)}"' + "*" * (self.is_open and number == len(runs))

    def pieces(self) -> Iterator[str]:
        """Yield what the index is asked for the pieces."""
        for at, part in enumerate(self.parts):
            if _is_piece(part):
                is_last = self.is_open and at == len(self.parts) - 1
                # The one character behind which a run may go on is the end of the piece before.
                if not (is_last and at and _is_piece(self.parts[at - 1])):
                    yield f'"{part}"' + "*" * is_last


class Match(Struct, frozen=True):
    """The phrases of a query, and those of its words that have signs inside, in one spelling."""

    phrases: tuple[Phrase, ...]
    with_signs: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """Query of the index of words; "" for none."""
        return " ".join(asked for phrase in self.phrases for asked in phrase.words())

    @property
    def pieces(self) -> str:
        """Query of the index of pieces; "" for none."""
        return " ".join(asked for phrase in self.phrases for asked in phrase.pieces())

    def holds(self, said: str) -> bool:
        """Return whether a text that the index found, as the index takes it, has the phrases with pieces."""
        return all(
            next(phrase.places(said), None) is not None
            for phrase in self.phrases
            if phrase.has_pieces
        )


def match_of(query: str) -> Match | None:
    """Return the query as the index is asked; None if the query has no word.

    A hit has every word; a word of the query may be the beginning of a longer word. A quoted
    phrase must occur exactly.
    """
    phrases: list[Phrase] = []
    with_signs: list[str] = []
    for phrase, word in re.findall(_PARTS, query):
        said = indexable(phrase or word)
        kept = "".join(char if _counts(char) else " " for char in said).split()
        if kept:
            # The last piece has one character, and in a line its run may go on.
            phrases.append(Phrase(tuple(kept), not phrase or _is_piece(kept[-1])))
        if word and len(kept) > 1:
            with_signs.append(spelled(word))
    return Match(tuple(phrases), tuple(with_signs)) if phrases else None


def _is_piece(part: str) -> bool:
    return part.startswith(PIECE)


def _end_of_signs(said: str, at: int) -> int:
    while at < len(said) and not _counts(said[at]):
        at += 1
    return at


def _counts(char: str) -> bool:
    """Return whether the tokenizer indexes a character: letters, numbers, marks, private use."""
    return unicodedata.category(char)[0] in "LNM" or unicodedata.category(char) == "Co"
