"""An editor's text: lines as the language server protocol splits them, edits, columns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond.lsp.text import Encoding, Position, Text

UTF8 = Encoding("utf-8", 1)
UTF16 = Encoding("utf-16-le", 2)
UTF32 = Encoding("utf-32-le", 4)

CHARS = st.text(st.sampled_from("ab\U0001f600é\u2028\x0b"), max_size=6)


def whole(text: Text) -> str:
    return "".join(text.lines)


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
    assert whole(text) == result
    assert text.lines == Text(result, UTF16).lines
    assert text.version == 1


@given(
    lines=st.lists(CHARS, min_size=1, max_size=4),
    new=st.lists(CHARS, min_size=1, max_size=3),
    points=st.tuples(*[st.integers(0, 30)] * 2),
)
def test_any_edit_gives_the_text_that_cutting_it_gives(
    lines: list[str], new: list[str], points: tuple[int, int]
) -> None:
    before, insert = "\n".join(lines), "\n".join(new)
    first, last = sorted(min(point, len(before)) for point in points)
    text = Text(before, UTF16)
    text.replace(place(before, first), place(before, last), insert)
    after = before[:first] + insert + before[last:]
    assert text.lines == Text(after, UTF16).lines


def place(text: str, index: int) -> Position:
    line = text.count("\n", 0, index)
    begins = text.rfind("\n", 0, index) + 1
    return Position(line, UTF16.units(text[begins:index]))
