"""Interleaved rounds: peer, ours, peer, ours, so that drift hits both alike.

Law: a first round warms up and is thrown away; every other one is kept, and none
is picked.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

__all__ = ["Entrant", "Sample", "contest"]

Sample = Mapping[str, float]
"""The metrics of one measurement, by name."""


class Entrant(Struct, frozen=True):
    """An entrant, which takes part in every round."""

    name: str
    measure: Callable[[], Sample]


def contest(
    entrants: Sequence[Entrant], rounds: int, tell: Callable[[str], None]
) -> dict[str, dict[str, list[float]]]:
    """Measure everyone in turn, `rounds` times; metric → one value a round, by entrant."""
    kept: dict[str, dict[str, list[float]]] = {entrant.name: {} for entrant in entrants}
    assert len(kept) == len(entrants), "two entrants of one name"
    for number in range(rounds + 1):
        tell(f"round {number}/{rounds}" if number else "warm-up")
        for entrant in entrants:
            sample = _measure(entrant)
            if number:
                for metric, value in sample.items():
                    kept[entrant.name].setdefault(metric, []).append(value)
    return kept


def _measure(entrant: Entrant) -> Sample:
    """Make a measurement without a garbage collection of this process."""
    gc.collect()
    gc.disable()
    try:
        return entrant.measure()
    finally:
        gc.enable()
