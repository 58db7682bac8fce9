"""Text as the index takes it: pieces that tell what stands in a text, and places that lead back to it."""

# ruff: noqa: RUF001 - texts in many scripts

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sessiond.catalog import pieces
from sessiond.catalog.fulltext import Addition, Indexed, TextIndex
from sessiond.catalog.matching import match_of
from sessiond.catalog.pieces import indexable, place_in, spelled, spelled_length
from sessiond.catalog.snippets import snippet
from tests.unit.test_search import line

# Letters that change their length or become one with a neighbour, marks, runs of several scripts, and emoji.
PARTS = [
    *"aﬁßİé㎏漢字存存ｶﾞか\u3099가각ก่ำកេ្क\u093fم\u0301\u0323\u1161\u11a8",
    "\u200b",
    "\ufe0f",
    *" ，\nªº🚀👩\u200d💻𠀀",
]
TEXTS = st.lists(st.sampled_from(PARTS), max_size=12).map("".join)
# Few characters, so that much of a query is often there, and not together.
RUNS = st.text("内存漏", min_size=1, max_size=4)
SENTENCES = st.lists(st.one_of(RUNS, st.sampled_from([" ", "，", "a", "🚀"])), max_size=6).map(
    "".join
)


@pytest.mark.parametrize(
    ("text", "indexed"),
    [
        ("The Fox", "the fox"),
        ("Ｃａｆé", "cafe"),
        ("Ёлка Ώρα İ", "елка ωρα i"),
        ("内存漏", " ª内存 ª存漏 ª漏 "),
        ("a内b", "a ª内 b"),
        ("메모", " ª메모 ª모 "),
        ("ที่", " ªที ª\u0e35\u0e48 ª\u0e48 "),
        ("𠀀\U00030000", " ª𠀀\U00030000 ª\U00030000 "),
        ("हिन्दी", "हिन्दी"),
        ("ª", "a"),
        ("葛\U000e0100城", " ª葛城 ª城 "),
        ("✅内", " ª\U000f2705  ª内 "),
    ],
)
def test_a_text_is_cut_where_its_script_has_no_blanks(text: str, indexed: str) -> None:
    assert indexable(text) == indexed


@given(text=TEXTS)
def test_the_index_has_a_sign_of_its_own(text: str) -> None:
    assert pieces.PIECE not in spelled(text)
    assert spelled_length(indexable(text)) == len(spelled(text))


@given(text=TEXTS)
@example("か" * 5 + "㎏" * 5 + "漢字")
@example("x\u0301\u0323" * 3)
def test_a_place_leads_back_to_its_character(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "_STEP", 1)
        found = [place_in(text, place) for place in range(len(spelled(text)))]
    lengths = [len(spelled(text[:size])) for size in range(len(text))]
    assert found == [
        max(size for size, length in enumerate(lengths) if length <= place)
        for place in range(len(spelled(text)))
    ]


@given(before=TEXTS, behind=TEXTS)
def test_a_snippet_shows_the_hit_as_it_was_said(before: str, behind: str) -> None:
    text = f"{before} Ｎｅｅｄｌｅ {behind}"
    match = match_of("needle")
    assert match is not None
    for whole in (text, "x" * 500 + text * 50):
        assert "Ｎｅｅｄｌｅ" in snippet(whole, indexable(whole), match.phrases)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TextIndex]:
    index = TextIndex(tmp_path_factory.mktemp("index") / "search.sqlite", pytest.fail)
    index.indexed()  # opens the file
    yield index
    index.close()


@given(texts=st.lists(SENTENCES, max_size=4), query=RUNS)
@example(["存漏 漏内", "存漏内"], "漏内")
@example(["内存，存漏"], "内存漏")
@example(["内存 漏"], "内存漏")
def test_a_run_is_found_where_it_stands_and_nowhere_else(
    index: TextIndex, texts: list[str], query: str
) -> None:
    lines = [line(seq, f"e{seq}", text) for seq, text in enumerate(texts)]
    index.put([Addition("session-a", Indexed("epoch", 1, 1), lines, anew=True)])
    match = match_of(query)
    assert match is not None
    hits = {hit.seq: hit.snippet for hit, _ in index.find(match, {"session-a"}.__and__, 10)}
    assert hits.keys() == {seq for seq, text in enumerate(texts) if query in text}
    assert all(query in shown for shown in hits.values())


@pytest.mark.parametrize("text", ["机密文件", "secretword 机密文件 " * 40])
def test_a_purge_leaves_no_piece(tmp_path: Path, text: str) -> None:
    index = TextIndex(tmp_path / "search.sqlite", pytest.fail)
    index.put([Addition("session-a", Indexed("epoch", 1, 1), [line(1, "e1", text)], anew=True)])
    index.file.erase(lambda _: None)
    before = (tmp_path / "search.sqlite").read_bytes()
    index.purge("session-a")
    index.close()
    left = (tmp_path / "search.sqlite").read_bytes()
    assert "文件".encode() in before
    assert not [part for part in ("机密", "密文", "文件", "secret") if part.encode() in left]


def test_words_beside_pieces_are_asked_for_once(tmp_path: Path) -> None:
    index = TextIndex(tmp_path / "search.sqlite", pytest.fail)
    match = match_of("cache 内存")
    assert match is not None
    counts, asked = (20, 400), list[int]()
    for count in counts:
        lines = [line(seq, f"e{seq}", "the cache 内存泄漏") for seq in range(count)]
        index.put([Addition("session-a", Indexed("epoch", 1, 1), lines, anew=True)])
        statements: list[str] = []
        index.file.use(partial(_traced, statements.append))
        assert len(index.find(match, {"session-a"}.__and__, 10)) == 10
        index.file.use(partial(_traced, None))
        asked.append(len(statements))
    index.close()
    # One more for each text: its length, by which hits are ordered.
    assert asked[1] - asked[0] <= counts[1] - counts[0] + 20


def _traced(trace: Callable[[str], object] | None, connection: sqlite3.Connection) -> None:
    connection.set_trace_callback(trace)
