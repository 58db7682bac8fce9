"""Searching in ten scripts: every place of a word is found, and no place that only looks like it."""

# ruff: noqa: RUF001 - texts in many scripts

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

import pytest

from sessiond.testing.daemon import Wire, running_daemon
from tests.kit.scripts import SCRIPTS, Script, Vocabulary
from tests.service.test_search import create_conversation

QUERIES_PER_SCRIPT = 20


class Corpus(Vocabulary):
    """Entries in one script, with the places of its words."""

    def __init__(self, script: Script) -> None:
        super().__init__(script, script.name, QUERIES_PER_SCRIPT)
        self.places: dict[str, set[int]] = {word: set() for word in self.words}
        self.texts: list[str] = []
        for word in self.words:
            for text in self.texts_with(word):
                self.texts.append(text)
                self.places[word].add(len(self.texts))
            self.texts += self.texts_like(word)


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
