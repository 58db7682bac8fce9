"""Ranges that an editor can fold."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from sessiond.lsp.features.folding import Fold, folds
from sessiond_client.tree_results import TreeNode
from tests.kit.lsp_views import node, placed


def chain(*kinds: str) -> list[TreeNode]:
    """Return entries, each below the one before."""
    return [
        node(f"e{seq}", f"e{seq - 1}" if seq > 1 else None, seq, what)
        for seq, what in enumerate(kinds, 1)
    ]


def test_a_turn_ends_before_the_next_user_message() -> None:
    nodes = chain("model_change", "user", "assistant", "tool", "user", "assistant")
    assert folds(placed(*nodes), [], 7) == [Fold(2, 4), Fold(5, 7)]


def test_a_user_message_alone_is_no_range() -> None:
    nodes = chain("user", "user", "assistant")
    assert folds(placed(*nodes), [], 3) == [Fold(2, 3)]


def test_a_compaction_folds_the_whole_turns_that_it_replaced() -> None:
    nodes = chain("user", "assistant", "user", "assistant", "user", "assistant", "compaction")
    kept_from_the_middle_of_a_turn = [(7, 6)]
    found = folds(placed(*nodes), kept_from_the_middle_of_a_turn, 7)
    assert found == [Fold(1, 4, compacted=True), Fold(1, 2), Fold(3, 4), Fold(5, 6)]


def test_a_second_compaction_folds_what_the_first_one_kept() -> None:
    first = ("user", "assistant", "user", "assistant", "compaction")
    nodes = chain(*first, "assistant", "user", "assistant", "compaction")
    found = folds(placed(*nodes), [(9, 9), (5, 3)], 9)
    assert [fold for fold in found if fold.compacted] == [Fold(3, 8, compacted=True)]


def test_lines_of_another_branch_are_not_folded_as_compacted() -> None:
    nodes = [
        *chain("user", "assistant", "user", "assistant"),
        node("b1", "e2", 5, "user"),
        node("c1", "e4", 6, "compaction"),
    ]
    assert not any(fold.compacted for fold in folds(placed(*nodes), [(6, 6)], 6))


@given(
    kinds=st.lists(st.sampled_from(["user", "assistant", "compaction", "tool"]), max_size=12),
    keeps=st.lists(st.integers(0, 14), max_size=12),
)
def test_ranges_are_nested_or_apart(kinds: list[str], keeps: list[int]) -> None:
    nodes = chain(*kinds)
    lines = [one.seq or 0 for one in nodes if one.type == "compaction"]
    found = folds(placed(*nodes), zip(lines, keeps, strict=False), len(kinds))
    assert len({(fold.first, fold.last) for fold in found}) == len(found)
    for one, two in combinations(found, 2):
        is_apart = one.last < two.first or two.last < one.first
        is_nested = one.first <= two.first <= two.last <= one.last
        assert is_apart or is_nested
