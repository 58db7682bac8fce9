"""The search index: queries of any kind, removed sessions, and the searchable text of entries."""

# ruff: noqa: RUF001 - words in many scripts

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond.catalog.fulltext import Addition, Indexed, LinePlace, Text, TextIndex
from sessiond.catalog.matching import Match, Phrase, match_of
from sessiond.dialects.words import entry_texts
from sessiond.journal.disk.files import Files
from sessiond.journal.scanning import lines_from
from sessiond.limits import SEARCH_TEXT_CHARS_MAX, SEARCH_TOOL_CHARS_MAX
from sessiond.model.searched import Part, Searched

MARK = Indexed("epoch", 2, 100)
HALF = SEARCH_TOOL_CHARS_MAX // 2
FOX = Match((Phrase(("fox",), is_open=True),))


def line(seq: int, entry_id: str, text: str) -> Text:
    """Return the text of a message."""
    return Text(seq, entry_id, Searched(Part.MESSAGE, text, "user"))


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TextIndex]:
    index = TextIndex(tmp_path_factory.mktemp("index") / "search.sqlite", pytest.fail)
    texts = [line(1, "e1", "The quick brown fox"), line(2, "e2", "don't look: C++ and a_b")]
    index.put([Addition("session-a", MARK, texts, anew=True)])
    yield index
    index.close()


def found(index: TextIndex, query: str) -> list[str | None]:
    match = match_of(query)
    assert match is not None
    return [hit.entry_id for hit, _ in index.find(match, {"session-a"}.__and__, 10)]


@pytest.mark.parametrize(
    ("query", "words", "pieces"),
    [
        ("one two", '"one"* "two"*', ""),
        ('"one two" three', '"one two" "three"*', ""),
        ('"never closed', '"never closed"', ""),
        ('one"two"', '"one"* "two"', ""),
        ("don't", '"don t"*', ""),
        ("a_b C++", '"a b"* "c"*', ""),
        ("内存泄漏", "", '"ª内存" "ª存泄" "ª泄漏"'),
        ("漏", "", '"ª漏"*'),
        ('"内存"', "", '"ª内存"'),
        ('"漏" "用Python"', '"python"', '"ª漏"* "ª用"'),
        ("内存 Ｐｙ的x", '"py" "x"*', '"ª内存" "ª的"'),
        ("查内，缓存", "", '"ª查内" "ª内" "ª缓存"'),
        ("ﾃﾞｰﾀ ㎏", '"kg"*', '"ªデー" "ªータ"'),
        ("GRÖSSE", '"grosse"*', ""),
        ("हिन्दी", '"हिन्दी"*', ""),
        ("ภาษา", "", '"ªภา" "ªาษ" "ªษา"'),
        ("\U00020000\U00020001", "", '"ª\U00020000\U00020001"'),
        ("🚀", "", '"ª\U000ff680"*'),
        ("a\0b", '"a b"*', ""),
    ],
)
def test_a_query_is_words_and_phrases(query: str, words: str, pieces: str) -> None:
    match = match_of(query)
    assert match is not None
    assert (match.words, match.pieces) == (words, pieces)


@pytest.mark.parametrize("query", ["\u0301", "，", '"" ?! -'])
def test_a_query_without_a_word_is_none(query: str) -> None:
    assert match_of(query) is None


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
        index.find(match, {"session-a"}.__and__, 10)


def test_only_the_sessions_that_are_wanted(index: TextIndex) -> None:
    assert index.find(FOX, {"another"}.__and__, 10) == []
    assert index.indexed() == {"session-a": MARK}
    assert index.indexed_of("another") is None


def test_lines_are_added_and_replaced(tmp_path: Path) -> None:
    index = TextIndex(tmp_path / "search.sqlite", pytest.fail)
    index.put([Addition("session-a", MARK, [line(1, "e1", "one")], anew=True)])
    index.put(
        [Addition("session-a", Indexed("epoch", 3, 120), [line(3, "e3", "one more")], anew=False)]
    )
    assert found(index, "one") == ["e1", "e3"]
    index.put([Addition("session-a", MARK, [line(1, "n1", "one")], anew=True)])
    assert found(index, "one") == ["n1"]
    index.close()


def drawn(letters: str, sizes: Sequence[int], blank: str) -> list[str]:
    """Return texts of 150 words, of which few are frequent, as in a language."""
    dice = random.Random(letters)
    words = ["".join(dice.choices(letters, k=dice.choice(sizes))) for _ in range(4_000)]
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    return [blank.join(dice.choices(words, weights, k=150)) for _ in range(3_000)]


@pytest.mark.parametrize(
    ("texts", "most"),
    [
        (drawn("etaoinshrdlucmfwypvbgk", [2, 3, 5, 7, 9], " "), 1.5),
        (drawn("".join(map(chr, range(0x4E00, 0x5600))), [2], ""), 2.0),
    ],
    ids=["latin", "chinese"],
)
def test_the_index_has_a_bounded_part_of_the_text(
    tmp_path: Path, texts: list[str], most: float
) -> None:
    index = TextIndex(tmp_path / "search.sqlite", pytest.fail)
    place = LinePlace(10**6, 1_000, 2**31)
    for at in range(0, len(texts), 100):
        lines = [
            Text(seq, f"{seq:032x}", Searched(Part.OUTPUT, text, "tool", "Bash"), 10**12, place)
            for seq, text in enumerate(texts[at : at + 100])
        ]
        index.put([Addition(f"session-{at}", MARK, lines, anew=True)])
    index.file.erase(lambda _: None)
    index.close()
    size = (tmp_path / "search.sqlite").stat().st_size
    assert size <= most * sum(len(text.encode()) for text in texts)


def message(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "message", "message": {"role": role, "content": content, **more}}


def call(name: str, arguments: Any) -> dict[str, Any]:
    return {"type": "toolCall", "id": "c1", "name": name, "arguments": arguments}


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        (message("user", "hi"), [(Part.MESSAGE, "hi", "user", "")]),
        (
            message("user", "x" * 300_000),
            [(Part.MESSAGE, "x" * SEARCH_TEXT_CHARS_MAX, "user", "")],
        ),
        (
            message(
                "assistant",
                [
                    {"type": "thinking", "thinking": "no"},
                    {"type": "text", "text": "yes"},
                    call("Bash", {"no": "rg x", "paths": ["/a", {"no": 7}], "all": True}),
                    {"type": "text", "text": "more"},
                    call("Edit", {}),
                ],
            ),
            [
                (Part.MESSAGE, "yes\nmore", "assistant", ""),
                (Part.ARGUMENTS, "rg x\n/a\n7", "assistant", "Bash"),
            ],
        ),
        (
            message(
                "assistant",
                None,
                tool_calls=[
                    {
                        "id": "1",
                        "function": {"name": "sh", "arguments": '{"cmd":["rg","\\u00e9"]}'},
                    },
                    {"id": "2", "function": {"name": "patch", "arguments": "*** Begin"}},
                ],
            ),
            [
                (Part.ARGUMENTS, "rg\né", "assistant", "sh"),
                (Part.ARGUMENTS, "*** Begin", "assistant", "patch"),
            ],
        ),
        (
            message("toolResult", [{"type": "text", "text": "out"}], toolName="Bash"),
            [(Part.OUTPUT, "out", "tool", "Bash")],
        ),
        (
            message("toolResult", "x" * 40_000 + "far", toolCallId="c1"),
            [(Part.OUTPUT, "x" * (HALF - 3) + "\n\uf8ff\n" + "x" * (HALF - 3) + "far", "tool", "")],
        ),
        (
            message("toolResult", "x" * SEARCH_TOOL_CHARS_MAX, toolCallId="c1"),
            [(Part.OUTPUT, "x" * SEARCH_TOOL_CHARS_MAX, "tool", "")],
        ),
        (
            message("user", [{"type": "tool_result", "tool_use_id": "c1", "content": "out"}]),
            [(Part.OUTPUT, "out", "tool", "")],
        ),
        (
            {
                "type": "message",
                "message": {"role": "bashExecution", "command": "ls", "output": "a"},
            },
            [(Part.ARGUMENTS, "ls", "user", "bash"), (Part.OUTPUT, "a", "user", "bash")],
        ),
        ({"type": "message", "message": 7}, []),
        ({"type": "message"}, []),
        ({"type": "compaction", "summary": "sum"}, [(Part.MESSAGE, "sum", "summary", "")]),
        ({"type": "branch_summary", "summary": "sum"}, [(Part.MESSAGE, "sum", "summary", "")]),
        ({"type": "session_info", "name": "title"}, [(Part.TITLE, "title", "title", "")]),
        (
            {
                "type": "custom_message",
                "customType": "x",
                "content": [{"type": "text", "text": "said"}],
            },
            [(Part.MESSAGE, "said", "custom", "")],
        ),
        ({"type": "custom", "customType": "x", "data": "no"}, []),
        ({"type": "label", "label": "no"}, []),
    ],
)
def test_what_an_entry_is_found_by(entry: Any, found: list[tuple[Part, str, str, str]]) -> None:
    texts = entry_texts(json.dumps(entry).encode())
    assert [(one.part, one.text, one.role, one.tool) for one in texts] == found


def test_a_line_that_is_no_entry_says_nothing() -> None:
    assert entry_texts(b"no JSON") == entry_texts(b"[]") == entry_texts(b"") == []


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
