"""JSON without the ends of its long texts: still JSON, with the same members, however it comes."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond.limits import LIST_TEXT_BYTES
from sessiond.model.short_texts import ShortTexts, shortened

MIB = 1 << 20
UNITS = ["x", "\\", '"', "\n", "\u20ac", "\U0001f600", "\\u", '\\"', "ab\n"]


def kept(value: bytes, step: int, bytes_max: int = MIB) -> bytes | None:
    short = ShortTexts(bytes_max)
    for at in range(0, len(value), step):
        short.add(value[at : at + step])
    return short.value()


def leaves(whole: Any, short: Any) -> Iterator[tuple[str, str]]:
    """Yield each text with what is kept of it; everything else is equal."""
    assert type(whole) is type(short)
    if isinstance(whole, dict):
        assert list(whole) == list(short)
        for name in whole:
            yield from leaves(whole[name], short[name])
    elif isinstance(whole, list):
        assert len(whole) == len(short)
        for one, other in zip(whole, short, strict=True):
            yield from leaves(one, other)
    elif isinstance(whole, str):
        yield whole, short
    else:
        assert whole == short


@pytest.mark.parametrize("is_ascii", [False, True])
@pytest.mark.parametrize("unit", UNITS)
def test_a_text_is_cut_between_characters_wherever_the_cut_falls(unit: str, is_ascii: bool) -> None:
    for shift in range(13):
        said = "y" * shift + unit * (2 * LIST_TEXT_BYTES)
        value = json.dumps({"a": said, "b": [said, 1], "id": "z"}, ensure_ascii=is_ascii).encode()
        for step in (1021, 64 * 1024):
            short = kept(value, step)
            assert short is not None
            assert len(short) < 2 * 6 * LIST_TEXT_BYTES + 100
            found = json.loads(short)
            assert (found["b"][1], found["id"]) == (1, "z")
            for text in (found["a"], found["b"][0]):
                # Half of an escaped pair is what the readers of such lines take.
                whole = text.encode(errors="surrogatepass")[: LIST_TEXT_BYTES // 2]
                assert said.encode().startswith(whole)
                assert len(whole) == LIST_TEXT_BYTES // 2


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=80)
    | st.tuples(st.sampled_from(UNITS), st.integers(60, 300)).map(lambda one: one[0] * one[1]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@given(VALUES, st.integers(1, 50), st.booleans())
def test_what_is_short_comes_out_as_it_went_in(value: Any, step: int, is_ascii: bool) -> None:
    encoded = json.dumps(value, ensure_ascii=is_ascii).encode(errors="surrogatepass")
    assert kept(encoded, step) == encoded


@given(VALUES, st.integers(200, 5000))
def test_the_members_stay_around_a_long_text(value: Any, step: int) -> None:
    long = {"before": value, "long": "word " * LIST_TEXT_BYTES, "behind": value}
    short = kept(json.dumps(long).encode(), step)
    assert short is not None
    for whole, found in leaves(long, json.loads(short)):
        assert whole.startswith(found)
        assert len(found) >= min(len(whole), LIST_TEXT_BYTES)


@given(st.binary(max_size=300), st.integers(1, 20))
def test_what_is_no_json_is_taken_too(value: bytes, step: int) -> None:
    assert kept(value, step) is not None


def test_what_is_long_without_long_texts_is_not_kept() -> None:
    value = json.dumps(["short"] * 100_000).encode()
    tracemalloc.start()
    try:
        assert kept(value, 64 * 1024, 100_000) is None
        assert tracemalloc.get_traced_memory()[1] < 600_000
    finally:
        tracemalloc.stop()
    assert shortened(value, 100_000) == value


def test_a_small_value_is_the_same_object() -> None:
    value = b'{"a":"%b"}' % (b"x" * 5000)
    assert shortened(value, len(value)) is value
    assert len(shortened(value, len(value) - 1)) < len(value)


@pytest.mark.parametrize("is_ascii", [False, True])
@pytest.mark.parametrize("unit", [*UNITS, "x ", " \\", "\u20ac \\n"])
def test_the_end_of_a_text_is_kept_from_a_blank_on(unit: str, is_ascii: bool) -> None:
    for shift in range(13):
        said = "y" * shift + unit * 5000 + " the end"
        value = json.dumps({"a": said, "id": "z"}, ensure_ascii=is_ascii).encode()
        for step in (1021, 64 * 1024):
            short = ShortTexts(MIB, 512, 96)
            for at in range(0, len(value), step):
                short.add(value[at : at + step])
            found = json.loads(short.value() or b"")
            assert found["id"] == "z"
            begin, _, end = found["a"].rpartition("\n" if "\n" not in unit else "\nthe ")
            assert len(begin) <= 512
            assert end.endswith("end")
            assert said.endswith(end)
