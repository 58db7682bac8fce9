"""Row 10: the memory that an open session of 100,000 or a million entries takes, against pi.

Both are processes that were just started. What opening adds to their resident memory counts, for pi
after its garbage was collected. pi 0.73.1 cannot open a million entries, because the file is longer
than its longest string: its growth for a tenth of them counts ten times.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from tests.bench.harness.bench import Bench, Pair, Row, figure
from tests.bench.harness.errors import Missing
from tests.bench.harness.figures import at_most
from tests.bench.harness.grown import opened_long
from tests.bench.harness.proc import folder_of, process_of, resident_kib
from tests.bench.harness.readback import require_count, require_in_memory
from tests.bench.harness.results import Contender, RowResult
from tests.bench.harness.rounds import Entrant, Sample
from tests.bench.harness.servers import daemon, new_home
from tests.bench.harness.stored import linked, native_file, pi_file
from tests.bench.harness.workload import SESSION_ID
from tests.bench.peers.pi import PI, PiDone, installed_pi, pi_worker

__all__ = ["ROW"]

ENTRIES, ENTRIES_QUICK = 100_000, 10_000
TIMES: Final = 10
# A file of the mix may not be longer than the longest string of node, which has 512 MiB.
PI_ENTRIES_MAX: Final = 350_000
GOAL = at_most(1 / 10)
PI_TENFOLD = Contender("pi (its growth for a tenth of the entries, ten times)", PI.version)


def ours_grows(bench: Bench, source: Path, entries: int) -> Sample:
    """Measure a fresh daemon before and after it opens a file."""
    home = new_home(bench.folder)
    linked(source, home)
    with daemon(bench.folder, bench.cores.server, home) as ours, ours.connect() as link:
        process = process_of(link)
        before = resident_kib(process)
        opened_long(ours, link, entries)
        grown = resident_kib(process) - before
        # The last entry can be read, so the session is open as a whole.
        require_in_memory(link, SESSION_ID, 1, after=entries - 1)
    return {"mib": grown / 1024}


def pi_grows(bench: Bench, source: Path, entries: int) -> Sample:
    """Measure a fresh pi before and after it opens these messages in its own spelling."""
    with pi_worker(bench.cache, bench.folder, bench.cores.server) as worker:
        process = folder_of(worker.pid)
        worker.ask({"do": "collect"}, PiDone)
        before = resident_kib(process)
        done = worker.ask({"do": "hold", "path": str(source)}, PiDone)
        worker.ask({"do": "collect"}, PiDone)
        grown = resident_kib(process) - before
    require_count(done.count, entries, "in pi")
    return {"mib": grown / 1024}


def compared(few: int, many: int) -> list[tuple[int, int, Contender]]:
    """Return each size of ours, the size of pi's that it is compared with, and pi's name there."""
    whole = many <= PI_ENTRIES_MAX
    return [(few, few, PI), (many, many, PI) if whole else (many, few, PI_TENFOLD)]


def measure(bench: Bench, result: RowResult) -> None:
    """Measure all sizes of both sides in one contest."""
    few = ENTRIES_QUICK if bench.quick else ENTRIES
    pairs = compared(few, few * TIMES)
    bench.tell(f"files of {few:,} and {few * TIMES:,} entries")
    entrants: list[Entrant] = []
    peer = True
    try:
        installed_pi(bench.cache)
    except Missing as missing:
        result.missing.append(str(missing))
        peer = False
    for size in sorted({size for _, size, _ in pairs}) if peer else ():
        pis = partial(pi_grows, bench, pi_file(bench.cache, size), size)
        entrants.append(Entrant(f"pi, {size:,}", pis))
    for size, _, _ in pairs:
        ours = partial(ours_grows, bench, native_file(bench.cache, size), size)
        entrants.append(Entrant(f"ours, {size:,}", ours))
    measured = bench.contest("open", entrants)
    for size, held, contender in pairs:
        pair = Pair(f"ours, {size:,}", f"pi, {held:,}" if peer else None, contender)
        case = f"growth, {size:,} entries"
        made = figure(measured, pair, "mib", case=case, goal=GOAL)
        result.figures.append(msgspec.structs.replace(made, peer_factor=size / held))


ROW = Row(10, "memory growth of an open session, against pi in process", measure)
