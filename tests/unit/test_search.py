"""The search index: queries of any kind, removed sessions, and the searchable text of entries."""

# ruff: noqa: RUF001 - words in many scripts

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond.catalog.fulltext import Indexed, Text, TextIndex
from sessiond.catalog.matching import Match, match_of
from sessiond.dialects.words import entry_words
from sessiond.journal.disk.files import Files
from sessiond.journal.scanning import lines_from
from sessiond.limits import SEARCH_TEXT_CHARS_MAX

MARK = Indexed("epoch", 2, 100)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TextIndex]:
    index = TextIndex(tmp_path_factory.mktemp("index") / "search.sqlite", pytest.fail)
    texts = [Text(1, "e1", "The quick brown fox"), Text(2, "e2", "don't look: C++ and a_b")]
    index.put("session-a", MARK, texts, anew=True)
    yield index
    index.close()


def found(index: TextIndex, query: str) -> list[str | None]:
    match = match_of(query)
    assert match is not None
    return [hit.entry_id for hit in index.find(match, ["session-a"], 10)]


@pytest.mark.parametrize(
    ("query", "match"),
    [
        ("one two", '"one"* "two"*'),
        ('"one two" three', '"one two" "three"*'),
        ('"never closed', '"never closed"'),
        ('one"two"', '"one"* "two"'),
        ("don't", '"don t"*'),
        ("a_b C++", '"a b"* "c"*'),
        ("内存泄漏", '"ª内存 ª存泄 ª泄漏 ª漏"*'),
        ("漏", '"ª漏"*'),
        ('"内存"', '"ª内存 ª存"*'),
        ('"漏" "用Python"', '"ª漏"* "ª用 python"'),
        ("内存 Ｐｙ的", '"ª内存 ª存"* "py ª的"*'),
        ("查内存，缓存", '"ª查内 ª内存 ª存 ª缓存 ª存"*'),
        ("ﾃﾞｰﾀ ㎏", '"ªデー ªータ ªタ"* "kg"*'),
        ("GRÖSSE", '"grosse"*'),
        ("हिन्दी", '"हिन्दी"*'),
        ("ภาษา", '"ªภา ªาษ ªษา ªา"*'),
        ("\U00020000\U00020001", '"ª\U00020000\U00020001 ª\U00020001"*'),
        ("🚀", '"ª\U000ff680"*'),
        ("\u0301", None),
        ("，", None),
        ('"" ?! -', None),
        ("a\0b", '"a b"*'),
    ],
)
def test_a_query_is_words_and_phrases(query: str, match: str | None) -> None:
    found = match_of(query)
    assert (None if found is None else found.expression) == match


@pytest.mark.parametrize("query", ["don't", "DON T", "c++", "a_b", '"quick brown"', "fox qui"])
def test_what_is_found(index: TextIndex, query: str) -> None:
    assert len(found(index, query)) == 1


@given(
    st.text(
        st.one_of(st.characters(codec="utf-8"), st.sampled_from('"*():^-+{}ANDORT ')), max_size=30
    )
)
def test_no_query_is_an_error(index: TextIndex, query: str) -> None:
    match = match_of(query)
    if match is not None:
        index.find(match, ["session-a"], 10)


def test_only_the_sessions_that_are_wanted(index: TextIndex) -> None:
    assert index.find(Match("fox"), ["another"], 10) == []
    assert index.indexed() == {"session-a": MARK}
    assert index.indexed_of("another") is None


def test_lines_are_added_and_replaced(tmp_path: Path) -> None:
    index = TextIndex(tmp_path / "search.sqlite", pytest.fail)
    index.put("session-a", MARK, [Text(1, "e1", "one")], anew=True)
    index.put("session-a", Indexed("epoch", 3, 120), [Text(3, "e3", "one more")], anew=False)
    assert found(index, "one") == ["e1", "e3"]
    index.put("session-a", MARK, [Text(1, "n1", "one")], anew=True)
    assert found(index, "one") == ["n1"]
    index.close()


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"type": "message", "message": {"role": "user", "content": "hi"}}, "hi"),
        (
            {"type": "message", "message": {"role": "user", "content": "x" * 300_000}},
            "x" * SEARCH_TEXT_CHARS_MAX,
        ),
        (
            {
                "type": "message",
                "message": {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "no"},
                        {"type": "text", "text": "yes"},
                        {"type": "toolCall", "id": "1", "name": "no", "arguments": {"no": "no"}},
                        {"type": "text", "text": "more"},
                    ],
                },
            },
            "yes\nmore",
        ),
        ({"type": "message", "message": {"role": "toolResult", "content": "no"}}, ""),
        ({"type": "message", "message": 7}, ""),
        ({"type": "message"}, ""),
        ({"type": "compaction", "summary": "sum"}, "sum"),
        ({"type": "branch_summary", "summary": "sum"}, "sum"),
        ({"type": "session_info", "name": "title"}, "title"),
        (
            {
                "type": "custom_message",
                "customType": "x",
                "content": [{"type": "text", "text": "said"}],
            },
            "said",
        ),
        ({"type": "custom", "customType": "x", "data": "no"}, ""),
        ({"type": "label", "label": "no"}, ""),
    ],
)
def test_what_an_entry_is_found_by(entry: Any, words: str) -> None:
    assert entry_words(json.dumps(entry).encode()) == words


def test_a_line_that_is_no_entry_says_nothing() -> None:
    assert entry_words(b"no JSON") == entry_words(b"[]") == entry_words(b"") == ""


@pytest.mark.parametrize("size", [1, 3, 1024 * 1024 - 1, 1024 * 1024, 2_500_000])
def test_lines_are_read_from_any_line_on(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    lines = [b"a" * size, b"", b"b\r", b"c" * size, b"end"]
    path.write_bytes(b"\n".join(lines))
    bare = [line.rstrip(b"\r") for line in lines]
    read = list(lines_from(Files(), path, 0))
    assert [line for line, _ in read] == bare
    for number, (_, end) in enumerate(read[:-1], 1):
        assert [line for line, _ in lines_from(Files(), path, end)] == bare[number:]
    # Once the last line has its newline, the next line begins at the announced offset.
    with path.open("ab") as file:
        file.write(b"\nmore\n")
    assert list(lines_from(Files(), path, read[-1][1])) == [(b"more", path.stat().st_size)]
