"""Row 8: opening 100,000 entries (135 MB) without a side index, against pi.

Ours is a daemon that was just started, asked over its socket for the session, a context and one
append. pi's is one call in a process that has opened this file before, so its compiler is warm.
Both find the file in the page cache.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import msgspec

from tests.bench.harness.bench import Bench, Pair, Row, figure
from tests.bench.harness.errors import BenchError
from tests.bench.harness.figures import at_most
from tests.bench.harness.opening import ours_opens
from tests.bench.harness.processes import Worker
from tests.bench.harness.results import RowResult
from tests.bench.harness.rounds import Sample
from tests.bench.harness.stored import native_file, pi_file
from tests.bench.peers.against_pi import contest_with_pi
from tests.bench.peers.pi import OPENS_IN_OF_0_73, PI, PI_1_5, PiDone

__all__ = ["ROW"]

ENTRIES, ENTRIES_QUICK = 100_000, 20_000


def pi_opens(worker: Worker, source: Path, entries: int) -> Sample:
    """Measure pi, which opens these messages in its own spelling."""
    done = worker.ask({"do": "open", "path": str(source)}, PiDone)
    if done.count != entries:
        raise BenchError(f"{entries} entries in the file, {done.count} in pi")
    return {"ms": done.ms}


def measure(bench: Bench, result: RowResult) -> None:
    """Measure one contest with two goals: against the measured pi, and an estimated pi 1.5."""
    entries = ENTRIES_QUICK if bench.quick else ENTRIES
    bench.tell(f"files of {entries:,} entries")
    source = native_file(bench.cache, entries)
    case = f"{entries:,} entries, {source.stat().st_size / 1e6:.0f} MB"
    measured, peer = contest_with_pi(
        bench,
        result,
        case,
        partial(ours_opens, bench, entries),
        lambda worker: partial(pi_opens, worker, pi_file(bench.cache, entries), entries),
    )
    for who, factor, goal in (
        (PI, 1.0, at_most(1 / 10)),
        (PI_1_5, OPENS_IN_OF_0_73, at_most(1 / 6)),
    ):
        made = figure(measured, Pair("ours", peer, who), "ms", case=case, goal=goal)
        result.figures.append(msgspec.structs.replace(made, peer_factor=factor))


ROW = Row(8, "open a session without side index, against pi in process", measure)
