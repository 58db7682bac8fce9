"""An editor's text: lines as the language server protocol splits them, edits, columns."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond.lsp.text.text import Encoding, Position, Splitter, Text

UTF8 = Encoding("utf-8", 1)
UTF16 = Encoding("utf-16-le", 2)
UTF32 = Encoding("utf-32-le", 4)


def test_only_line_feeds_and_carriage_returns_end_a_line() -> None:
    text = Text('{"a":"\u2028\x85\x0b"}\r\n{}\rlast', UTF16)
    assert [text.line(number) for number in range(4)] == [
        '{"a":"\u2028\x85\x0b"}',
        "{}",
        "last",
        "",
    ]
    assert len(text) == 3
    assert len(Text("one\n", UTF16)) == 2
    assert len(Text("", UTF16)) == 1


@pytest.mark.parametrize(
    ("encoding", "column"), [(UTF8, 7), (UTF16, 4), (UTF32, 3)], ids=["utf-8", "utf-16", "utf-32"]
)
def test_columns_are_counted_as_the_editor_counts(encoding: Encoding, column: int) -> None:
    text = Text("\U0001f600éb", encoding)
    assert text.column(0, 3) == column
    assert text.index(Position(0, column)) == 3
    assert text.index(Position(0, 99)) == 3


def test_a_column_within_a_pair_is_the_character_behind() -> None:
    assert Text("\U0001f600b", UTF16).index(Position(0, 1)) == 1


def test_half_a_pair_is_counted_and_never_fails() -> None:
    text = Text("a\ud83d b", UTF16)
    assert text.column(0, 3) == 3
    assert text.index(Position(0, 3)) == 3


@pytest.mark.parametrize(
    ("start", "end", "new", "result"),
    [
        ((0, 1), (0, 1), "X", "aX\U0001f600\nsecond\n"),
        ((0, 3), (1, 0), "", "a\U0001f600second\n"),
        ((0, 1), (0, 3), "1\n2\r\n", "a1\n2\r\n\nsecond\n"),
        ((2, 0), (2, 0), "third", "a\U0001f600\nsecond\nthird"),
        ((1, 0), (2, 0), "", "a\U0001f600\n"),
        ((0, 0), (9, 9), "all", "all"),
        ((9, 0), (9, 9), "behind", "a\U0001f600\nsecond\nbehind"),
    ],
)
def test_an_edit_replaces_what_lies_between(
    start: tuple[int, int], end: tuple[int, int], new: str, result: str
) -> None:
    text = Text("a\U0001f600\nsecond\n", UTF16)
    text.replace(Position(*start), Position(*end), new)
    assert "".join(text.lines) == result
    assert text.lines == Text(result, UTF16).lines
    assert text.version == 1


@pytest.mark.parametrize(
    ("before", "edit", "result"),
    [
        ("a\rb", ((1, 0), (1, 0), "\n"), ["a\r\n", "b"]),
        ("a\rb\n", ((1, 0), (1, 1), ""), ["a\r\n", ""]),
        ("a\n", ((0, 1), (0, 1), "\r"), ["a\r\n", ""]),
        ("a\r\nb", ((0, 1), (0, 9), "x\r"), ["ax\r", "\r\n", "b"]),
        ("a\r\nb", ((0, 1), (1, 0), "\r"), ["a\r", "b"]),
        ("\r", ((1, 0), (1, 0), "\n"), ["\r\n", ""]),
        ("\r\n", ((0, 0), (0, 0), "\r"), ["\r", "\r\n", ""]),
    ],
)
def test_a_carriage_return_and_a_line_feed_that_meet_end_one_line(
    before: str, edit: tuple[tuple[int, int], tuple[int, int], str], result: list[str]
) -> None:
    text = Text(before, UTF16)
    start, end, new = edit
    text.replace(Position(*start), Position(*end), new)
    assert list(text) == result


def test_halves_of_a_pair_that_meet_are_one_character() -> None:
    text = Text("a\ud83db", UTF16)
    text.replace(Position(0, 2), Position(0, 2), "\ude00")
    assert text.line(0) == "a\U0001f600b"


def test_a_place_behind_a_text_beyond_ascii_is_its_end() -> None:
    text = Text("éé", UTF8)
    text.replace(Position(7, 0), Position(9, 9), "x")
    assert text.line(0) == "ééx"


# -- any edits, against a plain string -------------------------------------------

ALPHABET = "aé\U0001f600\u2028\x85\x0b\r\n\ud83d\ude00"
TEXTS = st.text(st.sampled_from(ALPHABET), max_size=12)
PLACES = st.tuples(st.integers(0, 6), st.integers(0, 8))
EDITS = st.lists(st.tuples(PLACES, PLACES, TEXTS), min_size=1, max_size=8)


@pytest.mark.parametrize("encoding", [UTF8, UTF16, UTF32], ids=["utf-8", "utf-16", "utf-32"])
@given(before=TEXTS, edits=EDITS)
def test_any_edits_give_what_they_give_in_a_plain_string(
    encoding: Encoding,
    before: str,
    edits: list[tuple[tuple[int, int], tuple[int, int], str]],
) -> None:
    model = paired(before)
    text = Text(model, encoding)
    for start, end, new in edits:
        first, last = sorted((offset(model, start, encoding), offset(model, end, encoding)))
        text.replace(Position(*start), Position(*end), paired(new))
        model = paired(model[:first] + paired(new) + model[last:])
        assert list(text) == plain_lines(model)
    assert text.version == len(edits)


@given(text=TEXTS, cuts=st.lists(st.integers(0, 12), max_size=4))
def test_a_text_in_pieces_has_the_lines_of_the_whole(text: str, cuts: list[int]) -> None:
    splitter, units = Splitter(), text.encode("utf-16-le", "surrogatepass")
    marks = [0, *(2 * cut for cut in sorted(cuts)), len(units)]
    for begin, end in pairwise(marks):
        splitter.feed(units[begin:end].decode("utf-16-le", "surrogatepass"))
    assert splitter.end() == [line for line in plain_lines(paired(text)) if line]


def plain_lines(text: str) -> list[str]:
    ended: list[str] = re.findall("[^\r\n]*(?:\r\n|\n|\r)", text)
    return [*ended, text[sum(map(len, ended)) :]]


def offset(text: str, place: tuple[int, int], encoding: Encoding) -> int:
    """Return the index in a text of a place, found by counting one character after another."""
    lines = plain_lines(text)
    number, column = place
    if number >= len(lines):
        return len(text)
    at = sum(map(len, lines[:number]))
    for char in lines[number].rstrip("\r\n"):
        if column <= 0:
            break
        column -= len(char.encode(encoding.codec, "surrogatepass")) // encoding.unit_bytes
        at += 1
    return at


def paired(text: str) -> str:
    """Return a text as JSON brings it, with no two halves of a pair side by side."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
