"""Text as the search index takes it: in one spelling, and in pieces where a script has no blanks.

Law: lines and queries pass through the same function, before SQLite sees them. SQLite's tokenizer ends a word at a
blank or a sign, so a sentence of Chinese is one word to it, and so is a part of the sentence in a query: another
word. A run of such characters becomes pieces of two, each of which overlaps the next, and a last one of one
character. A part of the run is then a phrase of pieces, and a single character the beginning of a piece.

    "Ｃａｆé Größe"     cafe grosse
    "查内存的Python"     ª查内 ª内存 ª存的 ª的 python
    "ok🚀"              ok ª🚀, spelled as a character that SQLite takes for a letter

No other word begins like a piece: NFKC leaves no ª. A piece of two characters, and the last one, have three signs
more than the one character with which they begin, so a place in such a text tells the place in the text before.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from itertools import zip_longest
from typing import Final

PIECE: Final = "ª"
"""The character with which a piece begins; a letter to SQLite."""
_SIGNS_MORE: Final = 3
_PIECE: Final = rf"{PIECE}\S+"
_RUN_OF_PIECES: Final = rf"(?:\s+{_PIECE})+\s"

# Accents, of which SQLite takes off those of Latin alone, and what shows nothing but would cut a word in two.
_UNSEEN: Final = "[\u00ad\u0300-\u036f\u200b\u200d\u2060\ufe00-\ufe0f\ufeff\U000e0100-\U000e01ef]"
_THAI_LAO: Final = "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u0edc-\u0edf"
_MYANMAR: Final = "\u1000-\u103f\u1050-\u108f\u109a-\u109f\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa7f"
_KHMER: Final = "\u1780-\u17d3\u17d7\u17dc\u17dd"
_TAI: Final = "\u1950-\u19c9\u1a20-\u1a7c\uaa80-\uaadf"
_KANA: Final = (
    "\u3031-\u3035\u3041-\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
    "\U0001aff0-\U0001b16f"
)
_HAN: Final = (
    "\u3005-\u3007\u3021-\u3029\u303b\u3105-\u312f\u31a0-\u31bf\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)
_HANGUL: Final = "\u1100-\u11ff\ua960-\ua97f\uac00-\ud7ff"
_EMOJI: Final = "\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff"
_RUNS: Final = f"[{_THAI_LAO}{_MYANMAR}{_KHMER}{_TAI}{_KANA}{_HAN}{_HANGUL}]+|([{_EMOJI}]+)"
# To SQLite an emoji is a sign, which it skips. Private characters are letters to it.
_AS_LETTERS: Final = {
    code: code + (0xF0000 if code < 0x10000 else 0xE0000)
    for code in (*range(0x2300, 0x2C00), *range(0x1F000, 0x1FB00))
}
# Characters that never become one with a character before them.
_APART: Final = "[ -~\n\u0904-\u0939\u0e01-\u0e2e\u3041-\u3096\u30a1-\u30fa\u3400-\u9fff\uac00-\ud7a3\uff01-\uff9d]"
_STEP: Final = 1_000


def spelled(text: str) -> str:
    """Return a text in the one spelling that case, width and accents have in the index."""
    if text.isascii():
        return text.lower()
    letters = re.sub(_UNSEEN, "", unicodedata.normalize("NFKD", text))
    return unicodedata.normalize("NFKC", letters.casefold())


def indexable(text: str) -> str:
    """Return a text as the index takes it: in its one spelling, and in pieces where there are no blanks."""
    found = spelled(text)
    return found if found.isascii() else re.sub(_RUNS, _pieces, found)


def words_in(indexed: str) -> str:
    """Return a text as the index takes it, without its pieces: one mark stands for a run of them."""
    return indexed if indexed.isascii() else re.sub(_RUN_OF_PIECES, f" {PIECE} ", indexed)


def pieces_in(indexed: str) -> str:
    """Return the pieces of a text as the index takes it."""
    return "" if indexed.isascii() else " ".join(re.findall(_PIECE, indexed))


def _pieces(run: re.Match[str]) -> str:
    chars = run[0].translate(_AS_LETTERS) if run[1] else run[0]
    pairs = zip_longest(chars, chars[1:], fillvalue="")
    return "".join([f" {PIECE}{one}{two}" for one, two in pairs]) + " "


def spelled_length(indexed: str) -> int:
    """Return the length, in the one spelling, of a part of a text as the index takes it; pieces come whole."""
    return len(indexed) - _SIGNS_MORE * indexed.count(PIECE)


def place_in(text: str, place: int) -> int:
    """Return the place of the character of a text that is at `place` in the text's one spelling."""
    if text.isascii():
        return place
    begin = 0
    while True:
        # The spelling of a part is a part of the spelling where no character becomes one with those before it.
        apart = re.compile(_APART).search(text, begin + _STEP)
        end = len(text) if apart is None else apart.start()
        length = len(spelled(text[begin:end]))
        if place < length or apart is None:
            break
        place -= length
        begin = end
    sizes = range(max(1, end - begin))
    behind = bisect_right(sizes, place, key=lambda size: len(spelled(text[begin : begin + size])))
    return begin + behind - 1
