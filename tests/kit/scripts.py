"""Ten scripts, and in each of them words that stand in a text only where they were put."""

# ruff: noqa: RUF001 - texts in many scripts

from __future__ import annotations

import random
import unicodedata
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

__all__ = ["SCRIPTS", "Script", "Vocabulary"]

UNSEEN: Final = "\u200b"
_TRIES: Final = 1_000


class Script(Struct, frozen=True):
    """A script: what its words are made of, and whether blanks stand between them."""

    name: str
    syllables: list[str]
    has_blanks: bool = True


def syllables(begins: str, ends: str) -> list[str]:
    """Return each beginning alone, and with each end."""
    return [begin + end for begin in begins for end in ["", *ends]]


SCRIPTS: Final = [
    Script("latin", syllables("bdfklmnprstvzçñ", "aeiouäöüåéè")),
    Script("cyrillic", syllables("бвгджзклмнпрст", "аеиоуыэюяё")),
    Script("greek", syllables("βγδζθκλμνξπρτ", "αεηιοωάέό")),
    Script("arabic", list("بتثجحخدذرزسشصضطظعغفقكلمنهو")),
    Script("hindi", syllables("कखगचजटडतदनपबमरलवसह", "\u093e\u093f\u0940\u0941\u0947\u094b\u0902")),
    Script("chinese", list("内存泄漏订单服务缓问题检查数据库连接池超时版本发布修复码错误测试部署𠀀𡃁"), has_blanks=False),
    Script("japanese", list("データベスタイムアウトがのはをにで接続枯渇確認しました切れる文字"), has_blanks=False),
    Script("korean", list("메모리누수문제해결캐시확인주서비스데이터베연결오류배포"), has_blanks=False),
    Script("thai", syllables("กขคงจชดตทนบปผพมยรลวสห", "\u0e31\u0e34\u0e35\u0e48\u0e49"), has_blanks=False),
    Script("khmer", syllables("កខគងចជដតថនបផពមរលវស", "\u17b6\u17b7\u17bb\u17be\u17d2"), has_blanks=False),
]  # fmt: skip


class Vocabulary:
    """Words of one script, and texts that have one of them or none; everything is drawn from a seed.

    No word is in another one, in a text that only looks like a word, or in `besides`.
    """

    def __init__(self, script: Script, seed: str, count: int, *, besides: str = "") -> None:
        self._script = script
        self._dice = random.Random(seed)
        self._blank = " " if script.has_blanks else ""
        self.words: list[str] = []
        while len(self.words) < count:
            words = [*self.words, self._word()]
            alike = [text for word in words for text in (self._turned(word), self._cut(word))]
            there = [word for text in [*words, *alike] for word in words if self.has(text, word)]
            if there == words and not self.has(besides, words[-1]):
                self.words = words

    def texts_with(self, word: str) -> Iterator[str]:
        """Yield two texts that have a word and no other one: plain, and as people also write it."""
        yield self._text(word, self._blank, word, self._blank)
        shouted = unicodedata.normalize("NFD", f"{word[0]}{UNSEEN}{word[1:]}".upper())
        yield self._text(word, "，Ｐｙ", f"({shouted})", ". ok🚀")

    def texts_like(self, word: str) -> Iterator[str]:
        """Yield two texts that have no word, but all letters of this one."""
        for alike in (self._cut(word), self._turned(word)):
            yield self._text(None, self._blank, alike, self._blank)

    def has(self, text: str, word: str) -> bool:
        """Return whether a text has a word, at the beginning of a word where the script has blanks."""
        plain = unicodedata.normalize("NFKC", text).replace(UNSEEN, "").lower()
        if not self._script.has_blanks:
            return word in plain
        letters = "".join(one if unicodedata.category(one)[0] in "LMN" else " " for one in plain)
        return f" {_without_accents(word)}" in f" {_without_accents(letters)}"

    def _word(self) -> str:
        size = self._dice.choice([2, 2, 3, 4])
        return "".join(self._dice.sample(self._script.syllables, size))

    def _cut(self, word: str) -> str:
        """Return what has the letters of a word, with a sign within."""
        at = next(at for at in range(1, len(word)) if unicodedata.category(word[at])[0] == "L")
        return f"{word[:at]}，{word[at:]}"

    def _turned(self, word: str) -> str:
        """Return the letters of a word from behind, and again without the last one."""
        return f"{word[::-1]}{word[:-1]}"

    def _text(self, word: str | None, before: str, said: str, behind: str) -> str:
        """Return a text that has a word, or none; what stands around it never has one."""
        for _ in range(_TRIES):
            text = self._filler() + before + said + behind + self._filler()
            if [other for other in self.words if self.has(text, other)] == [word] * bool(word):
                return text
        raise AssertionError(f"no text is free of other words: {said}")

    def _filler(self) -> str:
        words = [self._word() for _ in range(self._dice.randrange(1, 12))]
        return self._blank.join(words)


def _without_accents(text: str) -> str:
    found = unicodedata.normalize("NFD", text)
    return "".join(one for one in found if not "\u0300" <= one <= "\u036f")
