"""Row 4: durable append over the socket, against a bare loop of write and fdatasync.

One by one the daemon cannot win: it adds a socket and a thread to the sync. With many waiting
appends, one sync serves all of them.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

from tests.bench.harness.appends import (
    IN_FLIGHT,
    ONE_BY_ONE,
    SIXTY_FOUR_CLIENTS,
    Shape,
    appends,
)
from tests.bench.harness.bench import Bench, Pair, Row, figure
from tests.bench.harness.figures import Goal, at_least
from tests.bench.harness.results import RowResult
from tests.bench.harness.rounds import Entrant
from tests.bench.harness.servers import daemon
from tests.bench.harness.workload import append_frames, messages
from tests.bench.peers.disk import LOOP, disk_loop, lines_file, looped

__all__ = ["ROW"]

LOOP_COUNT = 1500
SHAPES: tuple[tuple[Shape, int, Goal], ...] = (
    (IN_FLIGHT, 6000, at_least(5)),
    (SIXTY_FOUR_CLIENTS, 4800, at_least(2.5)),
    (ONE_BY_ONE, 1500, at_least(0.45)),
)


def measure(bench: Bench, result: RowResult) -> None:
    """Per mix one loop and the three shapes of ours, all in every round."""
    with ExitStack() as stack:
        worker = stack.enter_context(disk_loop(bench.folder, bench.cores.server))
        ours = stack.enter_context(daemon(bench.folder, bench.cores.server))
        for mix in bench.mixes:
            lines = bench.scaled(LOOP_COUNT, mix)
            source = lines_file(bench.folder, mix, lines)
            entrants = [Entrant("loop", partial(looped, worker, source, lines))]
            for shape, number, _ in SHAPES:
                frames = append_frames(messages(mix, bench.scaled(number, mix)))
                run = partial(appends, ours, shape, frames, persist="immediate")
                entrants.append(Entrant(shape.name, run))
            measured = bench.contest(mix, entrants)
            for shape, _, goal in SHAPES:
                pair = Pair(shape.name, "loop", LOOP)
                case = f"{shape.name}, {mix}"
                result.figures.append(figure(measured, pair, "rate", case=case, goal=goal))


ROW = Row(4, "durable append over the socket, against a bare write + fdatasync loop", measure)
