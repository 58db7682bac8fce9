"""The statistics on numbers small enough to check by hand."""

from __future__ import annotations

import pytest

from tests.bench.harness.figures import at_least, at_most, percentile, ratios, spread


def test_a_spread_is_median_least_and_greatest() -> None:
    found = spread([3.0, 1.0, 2.0, 10.0])
    assert (found.median, found.low, found.high) == (2.5, 1.0, 10.0)


def test_ratios_are_of_the_same_round_so_drift_cancels_out() -> None:
    # The machine halves its speed in the middle; the ratio does not move.
    peer = [100.0, 100.0, 50.0, 50.0]
    ours = [80.0, 80.0, 40.0, 40.0]
    found = spread(ratios(ours, peer))
    assert (found.median, found.low, found.high) == (0.8, 0.8, 0.8)


def test_a_round_that_only_one_side_ran_is_an_error() -> None:
    with pytest.raises(ValueError, match="zip"):
        ratios([1.0], [1.0, 2.0])


@pytest.mark.parametrize(
    ("share", "expected"), [(0.5, 50.0), (0.99, 99.0), (0.991, 100.0), (1.0, 100.0), (0.01, 1.0)]
)
def test_percentiles_are_values_that_were_measured(share: float, expected: float) -> None:
    values = [float(value) for value in range(100, 0, -1)]
    assert percentile(values, share) == expected


def test_the_percentile_of_one_value_is_that_value() -> None:
    assert percentile([7.0], 0.99) == 7.0


def test_a_goal_is_met_at_its_bound() -> None:
    assert at_least(0.95).met(0.95)
    assert not at_least(0.95).met(0.949)
    assert at_most(3).met(3.0)
    assert not at_most(3).met(3.01)


def test_goals_read_as_in_the_table() -> None:
    goals = (
        at_least(1.3),
        at_most(1 / 3),
        at_most(1 / 10),
        at_most(1 / 500),
        at_most(1.1),
        at_least(5),
    )
    assert [str(goal) for goal in goals] == ["≥ 1.3", "≤ 1/3", "≤ 1/10", "≤ 1/500", "≤ 1.1", "≥ 5"]


def test_ranges_that_touch_overlap() -> None:
    assert spread([1.0, 2.0]).overlaps(spread([2.0, 3.0]))
    assert not spread([1.0, 2.0]).overlaps(spread([2.1, 3.0]))
