"""The order of measurements, and what is kept of them."""

from __future__ import annotations

import gc

import pytest

from tests.bench.harness.rounds import Entrant, contest


def test_peer_and_ours_take_turns_and_the_first_round_is_thrown_away() -> None:
    order: list[str] = []

    def entrant(name: str) -> Entrant:
        def measure() -> dict[str, float]:
            order.append(name)
            return {"rate": float(len(order))}

        return Entrant(name, measure)

    kept = contest([entrant("peer"), entrant("ours")], 2, lambda _: None)
    assert order == ["peer", "ours"] * 3
    assert kept == {"peer": {"rate": [3.0, 5.0]}, "ours": {"rate": [4.0, 6.0]}}


def test_no_garbage_is_collected_while_the_clock_runs() -> None:
    seen: list[bool] = []

    def measure() -> dict[str, float]:
        seen.append(gc.isenabled())
        return {}

    contest([Entrant("ours", measure)], 1, lambda _: None)
    assert seen == [False, False]
    assert gc.isenabled()


def test_a_measurement_that_fails_ends_the_contest_and_leaves_the_collector_on() -> None:
    def measure() -> dict[str, float]:
        raise OSError("lost")

    with pytest.raises(OSError, match="lost"):
        contest([Entrant("ours", measure)], 1, lambda _: None)
    assert gc.isenabled()
