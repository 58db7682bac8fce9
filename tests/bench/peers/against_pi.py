"""Contests with pi in its own process, which are held without pi where it is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Final

from tests.bench.harness.bench import Bench, Measured, Pair, figure
from tests.bench.harness.errors import Missing
from tests.bench.harness.figures import Goal
from tests.bench.harness.processes import Worker
from tests.bench.harness.results import RowResult
from tests.bench.harness.rounds import Entrant, Sample
from tests.bench.harness.servers import Daemon, daemon
from tests.bench.harness.workload import messages
from tests.bench.peers.pi import NAME, PI, pi_appends, pi_worker

__all__ = ["contest_with_pi", "rates_of_appends"]

_APPENDS: Final = 6000
Measurement = Callable[[], Sample]


def contest_with_pi(
    bench: Bench,
    result: RowResult,
    case: str,
    ours: Measurement,
    pis: Callable[[Worker], Measurement],
) -> tuple[Measured, str | None]:
    """Hold a contest; return what was measured, and pi's name in it, None without pi."""
    with _present_pi(bench, result) as worker:
        entrants = [Entrant("ours", ours)]
        if worker is not None:
            entrants.insert(0, Entrant(NAME, pis(worker)))
        return bench.contest(case, entrants), None if worker is None else NAME


def rates_of_appends(
    bench: Bench,
    result: RowResult,
    label: str,
    goal: Goal,
    ours: Callable[[Daemon, list[bytes]], Measurement],
) -> None:
    """Measure the rate of appends of every mix; without pi our own rate alone."""
    with _present_pi(bench, result) as worker, daemon(bench.folder, bench.cores.server) as server:
        for mix in bench.mixes:
            bodies = messages(mix, bench.scaled(_APPENDS, mix))
            source = bench.folder / f"messages-{mix}.jsonl"
            source.write_bytes(b"".join(body + b"\n" for body in bodies))
            entrants = [Entrant("ours", ours(server, bodies))]
            if worker is not None:
                pis = partial(pi_appends, worker, source, len(bodies), bench.folder)
                entrants.insert(0, Entrant(NAME, pis))
            case = f"{label}, {mix}"
            measured = bench.contest(case, entrants)
            pair = Pair("ours", None if worker is None else NAME, PI)
            result.figures.append(figure(measured, pair, "rate", case=case, goal=goal))


@contextmanager
def _present_pi(bench: Bench, result: RowResult) -> Iterator[Worker | None]:
    """Yield a worker that runs pi; None, with a note in the result, where pi is missing."""
    with ExitStack() as stack:
        worker: Worker | None = None
        try:
            worker = stack.enter_context(pi_worker(bench.cache, bench.folder, bench.cores.server))
        except Missing as missing:
            result.missing.append(str(missing))
        yield worker
