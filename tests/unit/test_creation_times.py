"""No two sessions of one id are created at one time, whatever the clock says."""

from __future__ import annotations

from sessiond.service.registry.creation_times import CreationTimes

NOON, LATER = "2026-01-15T12:00:00.000Z", "2026-01-15T12:00:00.437Z"


def test_an_id_gets_each_time_once() -> None:
    times = CreationTimes()
    assert [times.give("a", NOON)[-4:] for _ in range(3)] == ["000Z", "001Z", "002Z"]
    assert times.give("b", NOON) == NOON
    assert [times.give("a", LATER) for _ in range(2)] == [LATER, "2026-01-15T12:00:00.438Z"]
    assert times.give("a", NOON) == "2026-01-15T12:00:00.439Z"
    assert times.give("b", NOON) == NOON
