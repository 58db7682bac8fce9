"""Rests of lines: the end of an object is told from whole objects, halves and bytes that are no JSON."""

from __future__ import annotations

import json

import pytest

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
