"""Row 16: what a daemon costs that has nothing to do, and how soon a new one answers.

Wake-ups are the voluntary context switches of all its threads: counts, which no other
load on the machine changes. Memory is what a thousand connections that never spoke
add to the resident set. The start is compared with the imports that it cannot do without.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import msgspec

from tests.bench.harness.bench import Bench, Measured, Pair, Row, figure
from tests.bench.harness.figures import Goal, at_most
from tests.bench.harness.machine import on_core
from tests.bench.harness.proc import TICKS, cpu_ticks, process_of, resident_kib, switches_of
from tests.bench.harness.results import Contender, Figure, RowResult
from tests.bench.harness.rounds import Entrant, Sample
from tests.bench.harness.servers import SESSIOND, daemon

__all__ = ["ROW"]

SESSIONS = 100
CONNECTIONS, CONNECTIONS_QUICK = 1000, 200
SETTLE_SECONDS = 3.0
WATCH_SECONDS, WATCH_SECONDS_QUICK = 10.0, 3.0
IMPORTS = "import msgspec, anyio._backends._asyncio"
PYTHON = Contender(f"python -c '{IMPORTS}'", sys.version.split()[0])


def wake_ups(bench: Bench) -> Sample:
    """Count wake-ups with a hundred open sessions, each watched by one idle connection."""
    seconds = WATCH_SECONDS_QUICK if bench.quick else WATCH_SECONDS
    with daemon(bench.folder, bench.cores.server) as ours, ExitStack() as stack:
        links = [stack.enter_context(ours.connect()) for _ in range(SESSIONS)]
        for link in links:
            session = ours.create(link, "immediate")
            link.ask("session/subscribe", {"session_id": session.id}, dict)
        process = process_of(links[0])
        # What the creations left to do is not idleness.
        time.sleep(SETTLE_SECONDS)
        switches, ticks = switches_of(process), cpu_ticks(process)
        time.sleep(seconds)
        switches, ticks = switches_of(process) - switches, cpu_ticks(process) - ticks
    return {"wakeups": switches / seconds, "cpu": 100 * ticks / TICKS / seconds}


def memory(bench: Bench) -> Sample:
    """Measure the memory of a connection that has sent one request only."""
    number = CONNECTIONS_QUICK if bench.quick else CONNECTIONS
    with daemon(bench.folder, bench.cores.server) as ours, ExitStack() as stack:
        first = stack.enter_context(ours.connect())
        process = process_of(first)
        before = resident_kib(process)
        for _ in range(number):
            stack.enter_context(ours.connect()).ask("server/ping", {}, dict)
        grown = resident_kib(process) - before
    return {"kib": grown / number}


def ours_starts(bench: Bench) -> Sample:
    """Measure the time from the start of the process to the answer of the first ping."""
    start = time.perf_counter()
    with daemon(bench.folder, bench.cores.server) as ours, ours.connect() as link:
        link.ask("server/ping", {}, dict)
        return {"ms": 1000 * (time.perf_counter() - start)}


def python_imports(bench: Bench) -> Sample:
    """Measure a start of the interpreter with the two libraries that serving needs."""
    start = time.perf_counter()
    with on_core(bench.cores.server):
        subprocess.run([sys.executable, "-c", IMPORTS], check=True)
    return {"ms": 1000 * (time.perf_counter() - start)}


def measure(bench: Bench, result: RowResult) -> None:
    """Three questions, each with fresh daemons."""
    for case, question in (
        (f"{SESSIONS} sessions, {SESSIONS} subscribers, idle", wake_ups),
        ("an idle connection", memory),
    ):
        measured = bench.contest(case, [Entrant("ours", partial(question, bench))])
        result.figures += _absolute(measured, case)
    entrants = [
        Entrant("python", partial(python_imports, bench)),
        Entrant("ours", partial(ours_starts, bench)),
    ]
    measured = bench.contest("start", entrants)
    pair = Pair("ours", "python", PYTHON)
    case = "from start-up to the first answer"
    result.figures.append(figure(measured, pair, "ms", case=case, goal=at_most(1.5)))


_GOALS: dict[str, Goal] = {"wakeups": at_most(3), "kib": at_most(20)}


def _absolute(measured: Measured, case: str) -> Iterator[Figure]:
    for metric in measured["ours"]:
        made = figure(measured, Pair("ours", None, SESSIOND), metric, case=case)
        goal = _GOALS.get(metric)
        yield msgspec.structs.replace(made, goal=goal, absolute=True, peer_is=None)


ROW = Row(16, "a daemon with nothing to do, and one that starts", measure)
