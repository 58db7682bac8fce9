"""Row 2: durable append over the socket, 64 in flight, against pi's append in its own process.

pi neither crosses a socket nor syncs: it appends to the page cache with one open, write
and close an entry. Its second message is an assistant's, so its search for one is short.
"""

from __future__ import annotations

from functools import partial

from tests.bench.harness.appends import IN_FLIGHT, appends
from tests.bench.harness.bench import Bench, Row
from tests.bench.harness.figures import at_least
from tests.bench.harness.results import RowResult
from tests.bench.harness.workload import append_frames
from tests.bench.peers.against_pi import rates_of_appends

__all__ = ["ROW"]

COUNT = 6000
GOAL = at_least(1.3)


def measure(bench: Bench, result: RowResult) -> None:
    """Every mix; without pi our own rate alone."""
    rates_of_appends(
        bench,
        result,
        "64 in flight",
        GOAL,
        lambda ours, bodies: partial(
            appends, ours, IN_FLIGHT, append_frames(bodies), persist="immediate"
        ),
    )


ROW = Row(2, "durable append over the socket, against pi in process without fsync", measure)
