"""Semantic tokens as the protocol has them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sessiond.lsp.features.tokens import LEGEND, change, encoded
from tests.kit.lsp_views import UTF16


def test_a_token_is_told_from_where_the_one_before_begins() -> None:
    lines = [
        (4, '{"type":"message","x":"\U0001f600","id":"a1","parent_id":"a0"}'),
        (6, "no JSON"),
        (7, '{"type":"label","label":"\U0001f600!"}'),
    ]
    assert encoded(lines, UTF16) == [
        *(4, 9, 7, 0, 0),
        *(0, 24, 2, 2, 1),
        *(0, 17, 2, 3, 0),
        *(3, 9, 5, 0, 0),
        *(0, 16, 3, 4, 0),
    ]
    assert list(LEGEND.token_types) == ["type", "keyword", "variable", "parameter", "decorator"]
    assert encoded([], UTF16) == []


@given(
    before=st.lists(st.integers(0, 3), max_size=9), after=st.lists(st.integers(0, 3), max_size=9)
)
def test_a_change_makes_the_later_tokens_of_the_earlier_ones(
    before: list[int], after: list[int]
) -> None:
    found = change(before, after)
    made = [*before[: found.start], *found.numbers, *before[found.start + found.removed :]]
    assert made == after
    if before == after:
        assert (found.removed, [*found.numbers]) == (0, [])
