"""The bound of levels of a JSON text, counted without a decoder."""

from __future__ import annotations

import pytest

from sessiond.limits import NESTING_MAX
from sessiond.model.nesting import nests_too_deeply

DEEPEST = b"[" * NESTING_MAX + b"]" * NESTING_MAX
SHALLOW = b"[" + b"[]," * 2 * NESTING_MAX + b"[]]"
"""A body with more brackets than may nest, none of which nest."""


@pytest.mark.parametrize(
    ("body", "within", "is_too_deep"),
    [
        (DEEPEST, 0, False),
        (b"[" + DEEPEST + b"]", 0, True),
        (DEEPEST, 1, True),
        (SHALLOW, 0, False),
        (b"[" * (NESTING_MAX - 2) + SHALLOW + b"]" * (NESTING_MAX - 2), 0, False),
        (b"[" * (NESTING_MAX - 1) + SHALLOW + b"]" * (NESTING_MAX - 1), 0, True),
        (b'["' + b"[" * 2 * NESTING_MAX + b'"]', 0, False),
        (b'["\\"' + b"[" * 2 * NESTING_MAX + b'"]', 0, False),
        (b'["\\\\",' + b"[" * 2 * NESTING_MAX, 0, True),
    ],
)
def test_levels_are_counted_outside_of_texts(body: bytes, within: int, is_too_deep: bool) -> None:
    assert nests_too_deeply(body, within) is is_too_deep
