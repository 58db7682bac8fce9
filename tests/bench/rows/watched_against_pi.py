"""Row 5: append without a sync and with a subscriber, 64 in flight, against pi in its own process.

Both sides write to the page cache. Ours also crosses a socket and sends every entry to a subscriber
on another connection; the clock runs until the subscriber has all events. pi tells no other program.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

from tests.bench.harness.appends import IN_FLIGHT
from tests.bench.harness.bench import Bench, Pair, Row, figure
from tests.bench.harness.errors import Missing
from tests.bench.harness.figures import at_least
from tests.bench.harness.load import watched
from tests.bench.harness.processes import Worker
from tests.bench.harness.results import RowResult
from tests.bench.harness.rounds import Entrant, Sample
from tests.bench.harness.servers import Daemon, daemon
from tests.bench.harness.workload import Frames, append_frames, messages
from tests.bench.peers.pi import PI, pi_appends, pi_worker

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
    with ExitStack() as stack:
        worker: Worker | None = None
        try:
            worker = stack.enter_context(pi_worker(bench.cache, bench.folder, bench.cores.server))
        except Missing as missing:
            result.missing.append(str(missing))
        ours = stack.enter_context(daemon(bench.folder, bench.cores.server))
        for mix in bench.mixes:
            bodies = messages(mix, bench.scaled(COUNT, mix))
            source = bench.folder / f"messages-{mix}.jsonl"
            source.write_bytes(b"".join(body + b"\n" for body in bodies))
            frames = append_frames(bodies, durability="os")
            entrants = [Entrant("ours", partial(ours_watched, ours, frames))]
            if worker is not None:
                pis = partial(pi_appends, worker, source, len(bodies), bench.folder)
                entrants.insert(0, Entrant("pi", pis))
            case = f"64 in flight, one subscriber, {mix}"
            measured = bench.contest(case, entrants)
            pair = Pair("ours", "pi" if worker is not None else None, PI)
            result.figures.append(figure(measured, pair, "rate", case=case, goal=GOAL))


ROW = Row(5, "append without sync, one subscriber, against pi in process", measure)
