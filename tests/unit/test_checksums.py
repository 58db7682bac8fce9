"""The running checksum of a file: equal to the checksum of the file's bytes at any offset."""

from __future__ import annotations

from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond.journal import checksums
from sessiond.journal.checksums import Checksums
from tests.kit.limits import set_limits

DO = st.one_of(
    st.tuples(st.just("add"), st.binary(min_size=1, max_size=9)),
    st.tuples(st.just("cut"), st.integers(0, 400)),
    st.tuples(st.just("ask"), st.integers(0, 400)),
)


@given(steps=st.lists(DO, max_size=60))
def test_it_is_that_of_the_bytes_whatever_was_added_cut_and_asked_before(
    steps: list[tuple[str, bytes | int]],
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, STEP_BYTES=16)
        patch.setattr(checksums, "_RECENT_MAX", 3)
        sums, data = Checksums(), b""

        def read(start: int, count: int) -> bytes:
            return data[start : start + count]

        for what, value in steps:
            if isinstance(value, bytes):
                sums.add(value)
                data += value
                continue
            at = min(value, len(data))
            assert sums.at(at, read) == crc32(data[:at])
            if what == "cut":
                sums.cut(at, read)
                data = data[:at]
            assert sums.at(len(data), read) == crc32(data)


def test_what_was_added_is_not_read_again() -> None:
    sums = Checksums()
    sums.add(b"one\n")
    sums.add(b"two\n")

    def read(start: int, count: int) -> bytes:
        raise AssertionError((start, count))

    assert sums.at(4, read) == crc32(b"one\n")
    assert sums.at(8, read) == crc32(b"one\ntwo\n")


def test_what_is_kept_does_not_grow_with_the_number_of_commits() -> None:
    sums = Checksums()
    for _ in range(5000):
        sums.add(b"x" * 100)
    assert len(sums._recent) + len(sums._offsets) < 300
