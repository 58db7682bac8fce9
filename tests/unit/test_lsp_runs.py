"""Runs against a plain list: any splices, and what a splice touches."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from sessiond.lsp.text.runs import Runs

SPLICES = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 40), st.lists(st.integers(), max_size=12)),
    max_size=12,
)


@given(items=st.lists(st.integers(), max_size=40), splices=SPLICES)
def test_any_splices_give_what_a_list_gives(
    items: list[int], splices: list[tuple[int, int, list[int]]]
) -> None:
    runs, model = Runs(items, items_max=8), list(items)
    for one, other, fresh in splices:
        first, last = sorted((min(one, len(model)), min(other, len(model))))
        before, copy = list(model), runs.copy()
        exchange = runs.splice(first, last, fresh)
        model[first:last] = fresh
        assert list(runs) == model
        assert [runs[number] for number in range(len(runs))] == model
        assert [copy[number] for number in range(len(copy))] == before
        assert all(0 < len(run.items) <= 8 for run in runs.runs)
        assert [run.start for run in runs.runs] == list(
            accumulate((len(run.items) for run in runs.runs), initial=0)
        )[:-1]
        assert set(exchange.fresh) <= set(runs.runs)
        assert not set(exchange.gone) & set(runs.runs)


def test_an_edit_touches_the_runs_of_its_items_and_no_others() -> None:
    runs = Runs(range(100_000))
    for at in (0, 50_000, 99_999):
        before = {id(run.items) for run in runs.runs}
        exchange = runs.splice(at, at + 1, [7, 7])
        assert len(exchange.gone) == 1
        assert len(before - {id(run.items) for run in runs.runs}) == 1


def test_a_copy_shares_its_items() -> None:
    runs = Runs(range(100_000))
    # The runs of a copy are new, their items are not.
    copy = runs.copy()
    assert {id(run.items) for run in copy.runs} == {id(run.items) for run in runs.runs}


def test_deletions_leave_no_crumbs() -> None:
    runs = Runs(range(10_000), items_max=16)
    for at in range(len(list(runs.runs)) - 1):
        start = min(at * 2, len(runs) - 16)
        runs.splice(start, start + 14, [])
    assert len(list(runs.runs)) <= len(runs) // 4 + 1
