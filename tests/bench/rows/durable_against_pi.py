"""Row 2: durable append over the socket, 64 in flight, against pi's append in its own process.

pi neither crosses a socket nor syncs: it appends to the page cache with one open, write
and close an entry. Its second message is an assistant's, so its search for one is short.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

from tests.bench.harness.appends import IN_FLIGHT, appends
from tests.bench.harness.bench import Bench, Pair, Row, figure
from tests.bench.harness.errors import Missing
from tests.bench.harness.figures import at_least
from tests.bench.harness.processes import Worker
from tests.bench.harness.results import RowResult
from tests.bench.harness.rounds import Entrant
from tests.bench.harness.servers import daemon
from tests.bench.harness.workload import append_frames, messages
from tests.bench.peers.pi import PI, pi_appends, pi_worker

__all__ = ["ROW"]

COUNT = 6000
GOAL = at_least(1.3)


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
            frames = append_frames(bodies)
            case = f"64 in flight, {mix}"
            entrants = [
                Entrant("ours", partial(appends, ours, IN_FLIGHT, frames, persist="immediate"))
            ]
            if worker is not None:
                pis = partial(pi_appends, worker, source, len(bodies), bench.folder)
                entrants.insert(0, Entrant("pi", pis))
            measured = bench.contest(case, entrants)
            pair = Pair("ours", "pi" if worker is not None else None, PI)
            result.figures.append(figure(measured, pair, "rate", case=case, goal=GOAL))


ROW = Row(2, "durable append over the socket, against pi in process without fsync", measure)
