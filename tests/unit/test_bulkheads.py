"""Openings outside the profile are bounded by place, and in all."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from sessiond.errors import Overloaded
from sessiond.limits import FOREIGN_OPENINGS_MAX, PLACE_OPENINGS_MAX
from sessiond.service.files.bulkheads import Bulkheads
from tests.kit.limits import set_limits

PLACES = [f"/mnt/{at}" for at in range(FOREIGN_OPENINGS_MAX // PLACE_OPENINGS_MAX)]


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    set_limits(monkeypatch, PLACE_PATIENCE_SECONDS=0.01)


def test_a_place_is_full_and_has_room_again() -> None:
    bulkheads = Bulkheads()
    with ExitStack() as openings:
        for _ in range(PLACE_OPENINGS_MAX):
            openings.enter_context(bulkheads.inside("/mnt/a"))
        with pytest.raises(Overloaded, match="/mnt/a does not answer: 8 openings"):
            openings.enter_context(bulkheads.inside("/mnt/a"))
        with bulkheads.inside("/mnt/b"):
            pass
    with bulkheads.inside("/mnt/a"):
        pass


def test_all_places_together_are_full_and_are_named() -> None:
    bulkheads = Bulkheads()
    with ExitStack() as openings:
        for place in PLACES * PLACE_OPENINGS_MAX:
            openings.enter_context(bulkheads.inside(place))
        with pytest.raises(
            Overloaded, match="32 openings wait in places that do not answer: /mnt/0"
        ):
            openings.enter_context(bulkheads.inside("/mnt/other"))


def test_an_opening_that_fails_leaves_its_place() -> None:
    bulkheads = Bulkheads()
    for _ in range(2 * PLACE_OPENINGS_MAX):
        with pytest.raises(OSError, match="gone"), bulkheads.inside("/mnt/a"):
            raise OSError("gone")
