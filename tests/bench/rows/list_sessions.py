"""Row 13: listing 1,000 sessions (164 MB), the first time and afterwards, against pi.

The first list of ours is counted from the start of the daemon's process, because its scan begins
then: start-up is in the figure. pi keeps nothing between lists, so both cases have one peer.
"""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

from msgspec import Struct

from tests.bench.harness.bench import Bench, Pair, Row, figure
from tests.bench.harness.errors import BenchError
from tests.bench.harness.figures import at_most
from tests.bench.harness.link import Link
from tests.bench.harness.processes import Worker
from tests.bench.harness.results import RowResult
from tests.bench.harness.rounds import Sample
from tests.bench.harness.servers import Session, daemon, new_home, sessions_folder
from tests.bench.harness.stored import many_native, many_pi
from tests.bench.peers.against_pi import contest_with_pi
from tests.bench.peers.pi import PI, PiDone

__all__ = ["ROW"]

SESSIONS, SESSIONS_QUICK = 1000, 100
ENTRIES = 114
AGAIN = 20


class _Listed(Struct):
    sessions: list[Session]


def _list(link: Link, sessions: int) -> None:
    found = link.ask("session/list", {"limit": sessions}, _Listed).sessions
    if len({session.id for session in found}) != sessions:
        raise BenchError(f"{sessions} sessions in the folder, {len(found)} in the list")


def ours_lists(bench: Bench, source: Path, sessions: int) -> Sample:
    """Measure the first list of a daemon that has never seen these files, and later lists."""
    home = new_home(bench.folder)
    for path in source.iterdir():
        os.link(path, sessions_folder(home) / path.name)
    start = time.perf_counter()
    with daemon(bench.folder, bench.cores.server, home) as ours, ours.connect() as link:
        _list(link, sessions)
        first = time.perf_counter() - start
        start = time.perf_counter()
        for _ in range(AGAIN):
            _list(link, sessions)
        again = (time.perf_counter() - start) / AGAIN
    return {"first": first * 1000, "again": again * 1000}


def pi_lists(worker: Worker, source: Path, sessions: int) -> Sample:
    """pi parses every file at every list."""
    done = worker.ask({"do": "list", "folder": str(source)}, PiDone)
    if done.count != sessions:
        raise BenchError(f"{sessions} sessions in the folder, {done.count} in pi's list")
    return {"first": done.ms, "again": done.ms}


def measure(bench: Bench, result: RowResult) -> None:
    """Measure both figures in one contest."""
    sessions = SESSIONS_QUICK if bench.quick else SESSIONS
    bench.tell(f"{sessions:,} files")
    source = many_native(bench.cache, sessions, ENTRIES)
    size = sum(path.stat().st_size for path in source.iterdir())
    measured, peer = contest_with_pi(
        bench,
        result,
        f"{sessions:,} sessions, {size / 1e6:.0f} MB",
        partial(ours_lists, bench, source, sessions),
        lambda worker: partial(pi_lists, worker, many_pi(bench.cache, sessions, ENTRIES), sessions),
    )
    pair = Pair("ours", peer, PI)
    for metric, case, goal in (
        ("first", "from start-up to the first list", at_most(1 / 3)),
        ("again", "every later list", at_most(1 / 400)),
    ):
        named = f"{case}, {sessions:,} sessions"
        result.figures.append(figure(measured, pair, metric, case=named, goal=goal))


ROW = Row(13, "list 1,000 sessions, against pi in process", measure)
