"""Integers that are spelled as decimal numbers, at each place of a value."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Struct

from sessiond.model.integers import decode_integers


class Asked(Struct):
    """Integers at each kind of place, and a number that is none."""

    count: int = 0
    counts: list[int] = []
    pair: tuple[str, int] = ("", 0)
    named: dict[str, int] = {}
    share: float = 0.0


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ('{"count":3.0}', Asked(count=3)),
        ('{"count":3e0,"share":3.0}', Asked(count=3, share=3.0)),
        ('{"count":1.8e308}', Asked(count=18 * 10**307)),
        ('{"counts":[1,2.0,3]}', Asked(counts=[1, 2, 3])),
        ('{"pair":["2.0",2.0]}', Asked(pair=("2.0", 2))),
        ('{"named":{"a":1.0,"b":2}}', Asked(named={"a": 1, "b": 2})),
    ],
)
def test_a_whole_number_is_read_as_an_integer(text: str, read: Asked) -> None:
    assert decode_integers(msgspec.json.Decoder(Asked).decode, Asked, text.encode()) == read


@pytest.mark.parametrize(
    "text", ['{"count":3.5}', '{"count":1e309}', '{"counts":[1.5]}', '{"pair":[2.0,2.0]}']
)
def test_what_is_no_whole_number_is_refused(text: str) -> None:
    decode: Any = msgspec.json.Decoder(Asked).decode
    with pytest.raises(msgspec.ValidationError):
        decode_integers(decode, Asked, text.encode())
