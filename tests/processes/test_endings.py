"""The daemon is ended under eight writers and five subscribers; nothing is lost, nothing is twice."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes.harness.chorus import Chorus
from tests.processes.harness.daemon import Daemon

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

ROUNDS = 20


@pytest.fixture
def chorus(daemon: Daemon, tmp_path: Path) -> Iterator[Chorus]:
    folder = tmp_path / "told"
    folder.mkdir()
    chorus = Chorus(daemon, folder)
    yield chorus
    chorus.dismiss()


def test_twenty_kills_under_eight_writers_lose_and_double_nothing(chorus: Chorus) -> None:
    chance = random.Random(2)
    rounds = 0
    # A few more if no kill hit an append between its write and its answer: then a retry that
    # is stored already was not shown.
    while rounds < ROUNDS or (rounds < 3 * ROUNDS and not chorus.duplicates()):
        # These answers came from the daemon that was started in the round before: the writers
        # connected again by themselves, and each has an append under way just now.
        chorus.hear(chance.randint(40, 200))
        assert chorus.end_daemon(signal.SIGKILL) == -signal.SIGKILL
        rounds += 1
        if rounds == ROUNDS // 2:
            chorus.join_late()
    chorus.hear(100)
    result = chorus.finish()
    assert result.faults == []
    assert result.duplicates > 0


def test_three_orderly_ends_under_eight_writers_lose_and_double_nothing(chorus: Chorus) -> None:
    for _ in range(3):
        chorus.hear(200)
        assert chorus.end_daemon(signal.SIGTERM) == 0
    chorus.join_late()
    chorus.hear(100)
    result = chorus.finish()
    assert result.faults == []
    assert result.entries > 700
    # What was taken in was also answered.
    assert (result.duplicates, result.torn) == (0, 0)
