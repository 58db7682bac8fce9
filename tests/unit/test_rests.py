"""Rests of lines: the end of an object is told from whole objects, halves and bytes that are no JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessiond.dialects import rests
from sessiond.dialects.rests import is_rest
from sessiond.limits import NESTING_MAX

ENTRY = {
    "type": "message",
    "id": "f1",
    "parent_id": None,
    "flags": [True, False, -1.5e3, {"a": ['é\\"\n{x}', ""]}],
    "message": {"role": "user", "content": "{a:1} ü \N{SMILING FACE WITH SUNGLASSES} \\u00e9"},
}
LINES = [json.dumps(ENTRY, ensure_ascii=plain).encode() for plain in (False, True)]


@pytest.mark.parametrize("line", LINES)
def test_the_end_of_an_object_is_a_rest_wherever_it_was_cut(line: bytes) -> None:
    assert [at for at in range(1, len(line)) if not is_rest(line[at:])] == []


@pytest.mark.parametrize("line", LINES)
def test_a_whole_object_and_the_beginning_of_one_are_no_rests(line: bytes) -> None:
    assert [end for end in range(len(line) + 1) if is_rest(line[:end])] == []


@pytest.mark.parametrize("line", LINES)
def test_an_object_with_a_byte_that_is_lost_or_wrong_is_no_rest(line: bytes) -> None:
    # Behind a damage of the first quote stands the end of an object.
    for at in range(2, len(line)):
        assert not is_rest(line[:at] + line[at + 1 :])
        assert not is_rest(line[:at] + b"#" + line[at + 1 :])


@pytest.mark.parametrize(
    "line",
    [
        *(b"", b"garbage", b"garbage}", b"}{", b'["message"]', b'"x"', b'a":1', b"\0" * 9),
        *(LINES[0] * 2, b"\0\0" + LINES[0], b"\0" + LINES[0][20:], LINES[0][20:] + LINES[0]),
        b"}" * (NESTING_MAX + 1),
    ],
)
def test_what_no_beginning_makes_an_object_is_no_rest(line: bytes) -> None:
    assert not is_rest(line)


# -- long lines -------------------------------------------------------------------------------------


@pytest.mark.parametrize("probe", [24, 100])
@pytest.mark.parametrize("line", LINES)
def test_a_long_line_is_judged_as_a_short_one(
    monkeypatch: pytest.MonkeyPatch, line: bytes, probe: int
) -> None:
    some = [line, *(line[:at] + b"#" + line[at + 1 :] for at in range(0, len(line), 41))]
    ends = [one[at:] for one in some for at in range(1, len(one))]
    short = [is_rest(end) for end in ends]
    assert True in short[len(line) :]
    monkeypatch.setattr(rests, "PROBE_BYTES", probe)
    assert [is_rest(end) for end in ends] == short


HOSTILE = {
    "numbers": (b"5", b",1", b",x]}"),
    "words": (b"e", b",null", b",x]}"),
    "a value, then numbers": (b"5", b',"":1', b",x}"),
    "a string": (b"abcd", b"ef", b'":1,x}'),
    "an escape, then strings": (b'0123"', b',"a":"b"', b",x}"),
    "an escape, then pairs": (b'0123"', b",[]", b",x]}"),
    "a string and a colon": (b'abc"', b':{}, "":[]', b",x}"),
    "escaped quotes": (b'"', b'\\"', b'",x}'),
    "quotes": (b"", b'"', b"}"),
    "a quote without an end": (b'"', b'\\"', b"}"),
    "blanks": (b"", b" ", b",x}"),
    "openers": (b"", b"[", b"}"),
    "closers": (b"5" + b"]" * 500, b",1", b",x}"),
    "no characters": (b"5", b',"\xff"', b",1]}"),
}
"""Beginnings, middles and ends of lines that many beginnings go on from, and no beginning makes an object."""


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_line_is_looked_at_a_few_times(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    looked = 0

    def counting(name: str) -> None:
        look = getattr(rests, name)

        def count(text: bytes) -> Any:
            nonlocal looked
            looked += len(text)
            return look(text)

        monkeypatch.setattr(rests, name, count)

    for name in ("_is_object", "_goes_on", "_missing"):
        counting(name)
    begin, middle, end = HOSTILE[kind]
    for size in (200_000, 400_000):
        looked = 0
        line = begin + middle * (size // len(middle)) + end
        assert not is_rest(line)
        assert looked < 8 * len(line) + 200 * rests.PROBE_BYTES
