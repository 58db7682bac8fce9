"""The times of leases in the row of a session: whatever another thread sees meanwhile, no lease ends early."""

from __future__ import annotations

from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from sessiond.dialects.native.dialect import NATIVE
from sessiond.service.actor.shared_leases import SharedLeases
from sessiond.service.database.following.catching_up import CatchingUp
from sessiond.service.database.leases import DatabaseLeases
from sessiond.service.store.lease_table import Leased
from sessiond.service.thread_pool import ThreadPool
from sessiond.testing.daemon import standing_environment
from tests.unit.test_open_notes import OLD

NS = 1_000_000_000
LEASED = Leased("main", "l", 1, 20 * NS, "another daemon", None, None)
ROW = replace(OLD, now_ns=10 * NS, leases=msgspec.json.encode([LEASED]))


class SeenMeanwhile(CatchingUp):
    """A log of whose attributes another thread looks at each change."""

    def __init__(self) -> None:
        self.name = Path("/x")
        self.head, self.read_at = ROW, monotonic()
        self.left: list[float] = []

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if hasattr(self, "left"):
            log: Any = self
            table = DatabaseLeases(log, "one", lambda: 1, lambda _: False, pytest.fail)
            self.left.append(table.seconds_left(LEASED))


@pytest.mark.parametrize("note", ["see", "reach"])
def test_a_lease_ends_no_earlier_while_a_later_row_is_noted(note: str) -> None:
    log = SeenMeanwhile()
    # The row was read nine seconds ago, and is read again: the lease has one second left.
    log.read_at = monotonic() - 9
    log.left.clear()
    row = replace(ROW, now_ns=19 * NS)
    if note == "see":
        log._see(row)
    else:
        log._reach(row, monotonic())
    assert min(log.left) > 0.9
    assert log.left[-1] < 1.1


def test_a_lease_ends_no_earlier_for_a_pause_between_two_clocks() -> None:
    seconds = [0.0]

    def clock() -> float:
        seconds[0] += 1
        return seconds[0]

    table: Any = SimpleNamespace(seen=lambda: (LEASED,), seconds_left=lambda _one: 20 - clock())
    leases = SharedLeases(
        replace(standing_environment(), monotonic=clock),
        lambda: 1,
        NATIVE.rules,
        lambda: table,
        ThreadPool(1),
    )
    leases._take(table)
    assert leases.held["main"].ends >= 20
