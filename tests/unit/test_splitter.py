"""Bytes to lines: each case whole, byte by byte, and in chunks that hypothesis cuts."""

from __future__ import annotations

import tracemalloc
from array import array
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond.journal.splitter import Splitter, ends_of, split_whole, without_cr, without_end

CASES = {
    "nothing": (b"", [], b""),
    "one line": (b"a\n", [b"a"], b""),
    "two lines": (b"a\nbc\n", [b"a", b"bc"], b""),
    "a tail": (b"a\nbc", [b"a"], b"bc"),
    "only a tail": (b"abc", [], b"abc"),
    "blank lines": (b"\n\na\n\n", [b"", b"", b"a", b""], b""),
    "CRLF": (b"a\r\nb\r\n\r\nc", [b"a", b"b", b""], b"c"),
    "CR in a line is JSON": (b'{"a":\r1}\nb\n', [b'{"a":\r1}', b"b"], b""),
    "two CRs lose one": (b"a\r\r\nb\n", [b"a\r", b"b"], b""),
    "CR at the end of the tail stays": (b"a\nb\r", [b"a"], b"b\r"),
    "line separators are no newlines": (
        "\u2028\u2029\x85\x0b\x0c\n".encode(),
        ["\u2028\u2029\x85\x0b\x0c".encode()],
        b"",
    ),
    "NUL bytes are bytes": (b"\0\0\n\0", [b"\0\0"], b"\0"),
}


def split(chunks: list[bytes]) -> tuple[list[bytes], list[int], bytes]:
    """Feed the chunks; return the lines, where they end, and the tail."""
    found: list[bytes] = []
    ends = array("q", [0])
    splitter = Splitter(ends)
    for chunk in chunks:
        found += splitter.feed(chunk)
        assert len(found) == len(ends) - 1
    assert b"".join([*found, splitter.rest()]) == b"".join(chunks)
    return list(map(without_end, found)), list(ends), splitter.rest()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("chunk_bytes", [1, 2, 3, 1000])
def test_lines_end_at_newlines_and_nowhere_else(name: str, chunk_bytes: int) -> None:
    data, lines, tail = CASES[name]
    chunks = [data[at : at + chunk_bytes] for at in range(0, len(data), chunk_bytes)]
    found, ends, rest = split(chunks)
    assert found == lines
    assert rest == tail
    assert ends == [0] + [at + 1 for at, byte in enumerate(data) if byte == 0x0A]


@given(
    st.lists(st.sampled_from([b"a", b"\n", b"\r", b"\r\n", b"bcd", b"\0"]), max_size=30),
    st.lists(st.integers(0, 60), max_size=10),
)
def test_where_the_chunks_are_cut_makes_no_difference(parts: list[bytes], cuts: list[int]) -> None:
    data = b"".join(parts)
    at = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    chunks = [data[a:b] for a, b in pairwise(at)]
    found, ends, rest = split(chunks)
    whole, tail = split_whole(data)
    assert found == [without_cr(line) for line in whole]
    assert rest == tail
    assert ends == [0, *ends_of(whole, 0)]
    assert len(b"".join(line + b"\n" for line in whole) + tail) == len(data)


def test_a_long_line_in_small_chunks_costs_its_length_once() -> None:
    # Counted, not timed: the half line grows in place, and is the line when the newline comes.
    ends = array("q", [0])
    lines: list[bytes] = []
    splitter = Splitter(ends)
    tracemalloc.start()
    try:
        for _ in range(50_000):
            lines += splitter.feed(b"0123456789")
        lines += splitter.feed(b"\nx")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(lines[0]) == 500_001
    assert peak < 600_000
    assert splitter.rest() == b"x"


def test_ends_count_from_where_the_first_line_begins() -> None:
    assert ends_of([b"a", b"", b"bc"], 10) == [12, 13, 16]
    assert ends_of([], 10) == []
