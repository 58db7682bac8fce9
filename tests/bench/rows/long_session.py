"""Row 7: the cost of an append and its event in a session of a million entries and an empty one.

The peer is sessiond itself. `durability: os`, because a sync takes equal times in both sessions
and would hide a growing cost.
"""

from __future__ import annotations

import shutil
from functools import partial

from tests.bench.harness.appends import IN_FLIGHT, ONE_BY_ONE, Shape
from tests.bench.harness.bench import Bench, Pair, Row, figure
from tests.bench.harness.figures import at_most
from tests.bench.harness.grown import Grown, opened_long
from tests.bench.harness.load import pipelined, watched
from tests.bench.harness.results import Contender, RowResult
from tests.bench.harness.rounds import Entrant, Sample
from tests.bench.harness.servers import SESSIOND, Daemon, daemon, new_home
from tests.bench.harness.stored import native_file, path_in
from tests.bench.harness.workload import Frames, append_frames, messages

__all__ = ["ROW"]

LONG, LONG_QUICK = 1_000_000, 100_000
# Small messages, so that a million of them fit the time; the appended ones are the mix.
STORED_BYTES = 150
SHAPES: tuple[tuple[str, Shape, bool, int], ...] = (
    ("append, 1 client", ONE_BY_ONE, False, 3000),
    ("append, 64 in flight", IN_FLIGHT, False, 9000),
    ("append and event, 64 in flight", IN_FLIGHT, True, 9000),
)
GOAL = at_most(1.1)
EMPTY = Contender("sessiond, empty session", SESSIOND.version)


def cost(ours: Daemon, shape: Shape, frames: Frames, grown: Grown, *, event: bool) -> Sample:
    """Microseconds an append, and with `event` until a subscriber has seen it, too."""
    own = frames.of_session(grown.session.id)
    with ours.connect() as link, ours.connect() as watcher:
        if event:
            wanted = {"session_id": grown.session.id, "signals": False}
            watcher.ask("session/subscribe", wanted, dict)
            timing = watched(link, watcher, own, shape.in_flight)
        else:
            timing = pipelined(link, own, shape.in_flight)
    grown.require(len(frames))
    return {"us_each": 1e6 / timing.rate, "generator_busy": timing.busy}


def cost_empty(ours: Daemon, shape: Shape, frames: Frames, *, event: bool) -> Sample:
    """Measure the cost in a session that was just made."""
    with ours.connect() as control:
        session = ours.create(control, "immediate")
    return cost(ours, shape, frames, Grown(session, 0), event=event)


def measure(bench: Bench, result: RowResult) -> None:
    """Measure in one daemon, which holds the long session open and gets new ones beside it."""
    entries = LONG_QUICK if bench.quick else LONG
    bench.tell(f"a file of {entries:,} entries")
    source = native_file(bench.cache, entries, size=STORED_BYTES)
    home = new_home(bench.folder)
    shutil.copyfile(source, path_in(home))
    with daemon(bench.folder, bench.cores.server, home) as ours, ours.connect() as control:
        grown = opened_long(ours, control, entries)
        for case, shape, event, number in SHAPES:
            frames = append_frames(messages("mix", bench.scaled(number)), durability="os")
            entrants = [
                Entrant("empty", partial(cost_empty, ours, shape, frames, event=event)),
                Entrant("long", partial(cost, ours, shape, frames, grown, event=event)),
            ]
            measured = bench.contest(case, entrants)
            name = f"{case}, {entries:,} entries"
            pair = Pair("long", "empty", EMPTY)
            result.figures.append(figure(measured, pair, "us_each", case=name, goal=GOAL))


ROW = Row(7, "append and event in a session of 1M entries, against an empty one", measure)
