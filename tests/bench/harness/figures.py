"""The statistics: medians of paired ratios, and whether a goal is met.

Law: pure arithmetic on lists of numbers. Absolute times drift by a factor of two on shared
machines, so only the ratio of two measurements of one round is compared with a goal.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from msgspec import Struct

__all__ = ["Goal", "Spread", "at_least", "at_most", "percentile", "ratios", "spread"]


class Spread(Struct, frozen=True):
    """A median with the least and the greatest of what was measured."""

    median: float
    low: float
    high: float

    def overlaps(self, other: Spread) -> bool:
        """Return whether the two ranges share a value, so that a difference may be noise."""
        return self.low <= other.high and other.low <= self.high


class Goal(Struct, frozen=True):
    """A bound on a ratio ours/peer."""

    bound: float
    higher_is_better: bool

    def met(self, ratio: float) -> bool:
        """Return whether `ratio` meets the goal; the bound itself meets it."""
        return ratio >= self.bound if self.higher_is_better else ratio <= self.bound

    def __str__(self) -> str:
        sign = "≥" if self.higher_is_better else "≤"
        fraction = 1 / self.bound if 0 < self.bound < 0.34 else 0
        if fraction and math.isclose(fraction, round(fraction), rel_tol=1e-9):
            return f"{sign} 1/{round(fraction)}"
        return f"{sign} {self.bound:g}"


def at_least(bound: float) -> Goal:
    """Return a goal for rates."""
    return Goal(bound, higher_is_better=True)


def at_most(bound: float) -> Goal:
    """Return a goal for times and costs."""
    return Goal(bound, higher_is_better=False)


def spread(values: Sequence[float]) -> Spread:
    """Median, least and greatest of one value or more."""
    return Spread(statistics.median(values), min(values), max(values))


def ratios(ours: Sequence[float], peer: Sequence[float]) -> list[float]:
    """Return the ratio of ours to the peer for each round; drift between rounds cancels out."""
    return [mine / theirs for mine, theirs in zip(ours, peer, strict=True)]


def percentile(values: Sequence[float], share: float) -> float:
    """Return the nearest-rank percentile: the least value that `share` of all do not exceed."""
    assert values, "no percentile of nothing"
    assert 0 < share <= 1
    return sorted(values)[math.ceil(share * len(values)) - 1]
