"""Searching in ten scripts: every place of a word is found, and no place that only looks like it."""

# ruff: noqa: RUF001 - texts in many scripts

from __future__ import annotations

import random
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from sessiond.testing.daemon import Wire, running_daemon
from tests.service.test_search import create_conversation

QUERIES_PER_SCRIPT = 20
UNSEEN = "\u200b"


class Script(Struct, frozen=True):
    """A script: what its words are made of, and whether blanks stand between them."""

    name: str
    syllables: list[str]
    has_blanks: bool = True


def syllables(begins: str, ends: str) -> list[str]:
    """Return each beginning alone, and with each end."""
    return [begin + end for begin in begins for end in ["", *ends]]


SCRIPTS = [
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


class Corpus:
    """Entries in one script, with the places of its words; everything is drawn from the script's name."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._dice = random.Random(script.name)
        self.places: dict[str, set[int]] = {}
        self.texts: list[str] = []
        while len(self.places) < QUERIES_PER_SCRIPT:
            words = [*self.places, self._word()]
            alike = [text for word in words for text in (self._turned(word), self._cut(word))]
            there = [word for text in [*words, *alike] for word in words if self.has(text, word)]
            if there == words:
                self.places[words[-1]] = set()
        for word in self.places:
            blank = " " if script.has_blanks else ""
            shouted = unicodedata.normalize("NFD", f"{word[0]}{UNSEEN}{word[1:]}".upper())
            self._say(word, blank, word, blank)
            self._say(word, "，Ｐｙ", f"({shouted})", ". ok🚀")
            self._say(None, blank, self._cut(word), blank)
            self._say(None, blank, self._turned(word), blank)

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

    def _say(self, word: str | None, before: str, said: str, behind: str) -> None:
        """Add an entry with a text that has a word, or none; what stands around it never has one."""
        for _ in range(1_000):
            text = self._filler() + before + said + behind + self._filler()
            there = [other for other in self.places if self.has(text, other)]
            if there == [word] * (word is not None):
                break
        else:
            pytest.fail(f"no text is free of other words: {said}")
        self.texts.append(text)
        if word is not None:
            self.places[word].add(len(self.texts))

    def _filler(self) -> str:
        words = [self._word() for _ in range(self._dice.randrange(1, 12))]
        return (" " if self._script.has_blanks else "").join(words)

    def has(self, text: str, word: str) -> bool:
        """Return whether a text has a word, at the beginning of a word where the script has blanks."""
        plain = unicodedata.normalize("NFKC", text).replace(UNSEEN, "").lower()
        if not self._script.has_blanks:
            return word in plain
        letters = "".join(one if unicodedata.category(one)[0] in "LMN" else " " for one in plain)
        return f" {_without_accents(word)}" in f" {_without_accents(letters)}"


def _without_accents(text: str) -> str:
    found = unicodedata.normalize("NFD", text)
    return "".join(one for one in found if not "\u0300" <= one <= "\u036f")


async def hits(wire: Wire, query: str, **more: Any) -> dict[tuple[str, int], str]:
    """Return the snippets of all hits by their places."""
    found = (await wire.call("session/search", query=query, **more))["hits"]
    return {(hit["session_id"], hit["seq"]): hit["snippet"] for hit in found}


async def test_two_hundred_queries_in_ten_scripts_find_each_place_and_no_other(home: Path) -> None:
    corpora = {f"session-{script.name}": Corpus(script) for script in SCRIPTS}
    asked = 0
    async with running_daemon(home) as daemon, daemon.connect() as wire:
        for session_id, corpus in corpora.items():
            await wire.call("session/create", cwd="/p", session_id=session_id, persist="immediate")
            messages = [{"role": "user", "content": text} for text in corpus.texts]
            entries = [{"type": "message", "message": message} for message in messages]
            await wire.call("append", session_id=session_id, entries=entries)
        for session_id, corpus in corpora.items():
            for word, places in corpus.places.items():
                asked += 1
                found = await hits(wire, word)
                assert found.keys() == {(session_id, seq) for seq in places}, (word, corpus.texts)
                for (_, seq), shown in found.items():
                    assert corpus.has(shown, word), (word, shown)
                    assert shown in corpus.texts[seq - 1], "it is shown as it was said"
    assert asked == 200


TEXTS = {
    "session-zh": "我们发现了一个严重的内存泄漏问题，需要检查订单服务的缓存。",
    "session-ja": "データベースの接続プールが枯渇してﾀｲﾑｱｳﾄしました。",
    "session-ko": "메모리누수문제를해결하기위해캐시를확인했습니다.",
    "session-th": "เราพบปัญหาหน่วยความจำรั่วอย่างรุนแรง",
    "session-hi": "हमें मेमोरी की गंभीर समस्या मिली",
    "session-mixed": "用Ｐｙｔｈｏｎ写的脚本🚀 10㎏ 𠀀𠀁 Größe",
    "session-decoy": "存漏，内 存泄 存内 the archive, filter 1d33 缓 存",
    "session-sign": "now archive-filter-1d33 is set, much later than all the words that stand here before it",
}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("内存泄漏", ["zh"]),
        ("泄漏内存", []),
        ("缓存 内存", ["zh"]),
        ("内存缓存", []),
        ('"内存泄漏问题"', ["zh"]),
        ("缓", ["decoy", "zh"]),
        ("缓存", ["zh"]),
        ("接続プール", ["ja"]),
        ("タイムアウト", ["ja"]),
        ("ﾌﾟｰﾙ", ["ja"]),
        ("캐시", ["ko"]),
        (unicodedata.normalize("NFD", "캐시"), ["ko"]),
        ("ความจำ", ["th"]),
        ("मेमोरी", ["hi"]),
        ("मे", ["hi"]),
        ("मोरी", []),
        ("用Python写", ["mixed"]),
        ("python 脚本", ["mixed"]),
        ("写python", []),
        ("𠀁", ["mixed"]),
        ("𠀀𠀁", ["mixed"]),
        ("🚀", ["mixed"]),
        ("🔥", []),
        ("kg", []),
        ("10kg", ["mixed"]),
        ("GRÖSSE", ["mixed"]),
    ],
)
async def test_what_people_type_in_their_scripts(home: Path, query: str, found: list[str]) -> None:
    async with running_daemon(home) as daemon, daemon.connect() as wire:
        for session_id, text in TEXTS.items():
            await create_conversation(wire, session_id, text)
        shown = await hits(wire, query)
        assert sorted(session_id for session_id, _ in shown) == [f"session-{one}" for one in found]
        for (session_id, _), snippet in shown.items():
            assert snippet == TEXTS[session_id]


async def test_what_is_spelled_as_it_was_typed_comes_first(home: Path) -> None:
    async with running_daemon(home) as daemon, daemon.connect() as wire:
        for session_id, text in TEXTS.items():
            await create_conversation(wire, session_id, text)
        found = [session_id for session_id, _ in await hits(wire, "archive-filter-1d33")]
        assert found == ["session-sign", "session-decoy"]
