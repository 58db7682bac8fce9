"""Rows of open sessions that many threads ask for: one query for all, and none behind a query that hangs."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sessiond.service.database.database import Head
from sessiond.service.database.following.positions import Positions
from sessiond.testing.database import MemoryConnection, MemoryDatabase
from tests.kit.patience import PATIENCE_SECONDS


class Stopped:
    """A connection whose server process stops in the first query."""

    def __init__(self, inner: MemoryConnection) -> None:
        self.inner = inner
        self.asked: list[Sequence[int]] = []
        self.has_begun, self.may_go = threading.Event(), threading.Event()

    def heads(self, numbers: Sequence[int]) -> list[Head]:
        self.asked.append(numbers)
        if len(self.asked) == 1:
            self.has_begun.set()
            assert self.may_go.wait(PATIENCE_SECONDS)
        return self.inner.heads(numbers)


def test_a_query_that_hangs_delays_the_looks_of_no_other_session_for_long() -> None:
    inner = MemoryDatabase(time.time_ns).connection()
    for name in ("a", "b", "c"):
        assert inner.create(f"session-{name}", "epoch", [[b"line"]], "placed") is not None
    connection: Any = Stopped(inner)
    positions = Positions(connection)
    with ThreadPoolExecutor(8) as threads:
        hangs = threads.submit(positions.head, 1)
        try:
            assert connection.has_begun.wait(PATIENCE_SECONDS)
            others = [threads.submit(positions.head, number) for number in (2, 3, 1, 2, 3)]
            found = [one.result(PATIENCE_SECONDS / 4) for one in others]
            assert [head and head.number for head in found] == [2, 3, 1, 2, 3]
            assert not hangs.done()
            # They have waited together, so they share a query.
            assert len(connection.asked) < 2 + len(others)
            # Behind a wait of its own, the next look is a query that begins behind the call.
            (moved,) = inner.heads([2])
            assert inner.append(moved, [b"more"], b"digest", sync=True) is not None
            head = positions.head(2)
            assert head is not None
            assert head.seq == moved.seq + 1
        finally:
            connection.may_go.set()
        first = hangs.result(PATIENCE_SECONDS)
    assert first is not None
    assert first.number == 1
    # The calls behind it are in turn again.
    asked = len(connection.asked)
    assert positions.head(3) is not None
    assert len(connection.asked) == asked + 1


def test_a_call_during_a_query_has_a_query_of_its_own() -> None:
    class Slow(Stopped):
        """A connection whose first query has read its rows, and is on its way back."""

        def heads(self, numbers: Sequence[int]) -> list[Head]:
            found = self.inner.heads(numbers)
            super().heads(numbers)
            return found

    inner = MemoryDatabase(time.time_ns).connection()
    made = inner.create("session-a", "epoch", [[b"line"]], "placed")
    assert made is not None
    connection: Any = Slow(inner)
    positions = Positions(connection)
    with ThreadPoolExecutor(2) as threads:
        early = threads.submit(positions.head, 1)
        try:
            assert connection.has_begun.wait(PATIENCE_SECONDS)
            assert inner.append(made, [b"more"], b"digest", sync=True) is not None
            late = threads.submit(positions.head, 1).result(PATIENCE_SECONDS / 4)
        finally:
            connection.may_go.set()
        assert early.result(PATIENCE_SECONDS) is not None
    assert late is not None
    assert late.seq == made.seq + 1
