"""Row 0: the raw server against itself. How far from 1 this is, so far is no other row exact."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

from tests.bench.harness.appends import EIGHT_CLIENTS, IN_FLIGHT, ONE_BY_ONE, appends
from tests.bench.harness.bench import Bench, Pair, Row, figure
from tests.bench.harness.results import RowResult
from tests.bench.harness.rounds import Entrant
from tests.bench.harness.servers import raw_server
from tests.bench.harness.workload import append_frames, messages

__all__ = ["ROW"]

SHAPES = ((ONE_BY_ONE, 4000), (IN_FLIGHT, 30_000), (EIGHT_CLIENTS, 8000))


def measure(bench: Bench, result: RowResult) -> None:
    """Measure two processes of one program, in turn."""
    with ExitStack() as stack:
        first = stack.enter_context(raw_server(bench.folder, bench.cores.server))
        second = stack.enter_context(raw_server(bench.folder, bench.cores.server))
        pair = Pair("again", "raw", first.contender)
        for shape, count in SHAPES:
            frames = append_frames(messages("mix", bench.scaled(count)))
            case = f"{shape.name}, mix"
            entrants = [
                Entrant("raw", partial(appends, first, shape, frames, persist="never")),
                Entrant("again", partial(appends, second, shape, frames, persist="never")),
            ]
            measured = bench.contest(case, entrants)
            result.figures += [
                figure(measured, pair, metric, case=case) for metric in ("rate", "p99_us")
            ]


ROW = Row(0, "the instrument: raw server against itself (1 = exact)", measure)
