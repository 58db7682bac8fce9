"""Row 1: append over the socket without a disk, against a raw asyncio echo that parses as much.

The rates are compared, and the 99th percentile of the latency.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

from tests.bench.harness.appends import (
    EIGHT_CLIENTS,
    IN_FLIGHT,
    ONE_BY_ONE,
    Shape,
    appends,
)
from tests.bench.harness.bench import Bench, Pair, Row, figure
from tests.bench.harness.figures import Goal, at_least, at_most
from tests.bench.harness.results import RowResult
from tests.bench.harness.rounds import Entrant
from tests.bench.harness.servers import daemon, raw_server
from tests.bench.harness.workload import append_frames, messages

__all__ = ["ROW"]

SHAPES: tuple[tuple[Shape, int, Goal], ...] = (
    (ONE_BY_ONE, 4000, at_least(0.95)),
    (IN_FLIGHT, 30_000, at_least(0.80)),
    (EIGHT_CLIENTS, 8000, at_least(0.90)),
)
P99_GOAL = at_most(3)


def measure(bench: Bench, result: RowResult) -> None:
    """Every mix on servers of its own: what was appended before stays in their memory."""
    for mix in bench.mixes:
        with ExitStack() as stack:
            peer = stack.enter_context(raw_server(bench.folder, bench.cores.server))
            ours = stack.enter_context(daemon(bench.folder, bench.cores.server))
            for shape, count, goal in SHAPES:
                frames = append_frames(messages(mix, bench.scaled(count, mix)))
                case = f"{shape.name}, {mix}"
                entrants = [
                    Entrant("peer", partial(appends, peer, shape, frames, persist="never")),
                    Entrant("ours", partial(appends, ours, shape, frames, persist="never")),
                ]
                measured = bench.contest(case, entrants)
                pair = Pair("ours", "peer", peer.contender)
                result.figures += [
                    figure(measured, pair, "rate", case=case, goal=goal),
                    figure(measured, pair, "p99_us", case=case, goal=P99_GOAL),
                ]


ROW = Row(1, "append RPC, persist never, against a raw asyncio + msgspec echo", measure)
