"""Row 5: append without a sync and with a subscriber, 64 in flight, against pi in its own process.

Both sides write to the page cache. Ours also crosses a socket and sends every entry to a subscriber
on another connection; the clock runs until the subscriber has all events. pi tells no other program.
"""

from __future__ import annotations

from functools import partial

from tests.bench.harness.appends import IN_FLIGHT
from tests.bench.harness.bench import Bench, Row
from tests.bench.harness.figures import at_least
from tests.bench.harness.load import watched
from tests.bench.harness.results import RowResult
from tests.bench.harness.rounds import Sample
from tests.bench.harness.servers import Daemon
from tests.bench.harness.workload import Frames, append_frames
from tests.bench.peers.against_pi import rates_of_appends

__all__ = ["ROW"]

COUNT = 6000
GOAL = at_least(1.6)


def ours_watched(ours: Daemon, frames: Frames) -> Sample:
    """Append every frame to a new session that one subscriber watches."""
    with ours.connect() as link, ours.connect() as watcher:
        session = ours.create(link, "immediate")
        # Every line is counted, so hints about the session are not asked for.
        wanted = {"session_id": session.id, "signals": False}
        watcher.ask("session/subscribe", wanted, dict)
        timing = watched(link, watcher, frames.of_session(session.id), IN_FLIGHT.in_flight)
        ours.require(link, session, timing.requests)
    return timing.sample()


def measure(bench: Bench, result: RowResult) -> None:
    """Every mix; without pi our own rate alone."""
    rates_of_appends(
        bench,
        result,
        "64 in flight, one subscriber",
        GOAL,
        lambda ours, bodies: partial(ours_watched, ours, append_frames(bodies, durability="os")),
    )


ROW = Row(5, "append without sync, one subscriber, against pi in process", measure)
