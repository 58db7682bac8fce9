"""The daemon is ended under eight writers and five watchers; nothing is lost, nothing is twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.torture.company import Role
from tests.torture.killer import Killer, Misfortune
from tests.torture.round import Round
from tests.torture.tally import Tally

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.search]

CAST = (
    *(Role(f"lib-{number}", "blocking", "append") for number in range(6)),
    *(Role(f"tasks-{number}", "tasks", "append") for number in range(2)),
    *(Role(f"watch-{number}", "blocking", "watch") for number in range(3)),
    *(Role(f"watch-raw-{number}", "raw", "watch") for number in range(2)),
)


def ended(how: Callable[[Killer], None], times: int) -> Misfortune:
    """Return a misfortune: the daemon ends several times, each time after some answers."""

    def befall(killer: Killer, chance: Random, progress: Callable[[str], None]) -> None:
        for _ in range(times):
            killer.wait(chance.randint(40, 200))
            how(killer)
        killer.wait(100)

    return befall


def counts_of(befall: Misfortune, home: Path) -> Tally:
    tally = Tally()
    outcome = Round(2, befall, cast=CAST).run(tally, lambda _: None)
    assert outcome.violations == [], outcome.folder
    return tally


def test_twenty_kills_under_eight_writers_lose_and_double_nothing(home: Path) -> None:
    tally = counts_of(ended(Killer.kill_daemon, 20), home)
    assert tally.counts["daemon kills"] == 20


def test_three_orderly_ends_under_eight_writers_lose_and_double_nothing(home: Path) -> None:
    tally = counts_of(ended(Killer.end_daemon, 3), home)
    assert tally.counts["daemon terms"] == 3
    # What was taken in was also answered.
    assert (tally.counts["duplicates"], tally.counts["torn tails"]) == (0, 0)
