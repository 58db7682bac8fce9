"""Row 12: a compaction of a session of 100,000 entries, against pi and against a short session.

Ours is committed through the socket and on disk before the answer; pi's is what its agent does in
process with a summary it has: what to keep, the entry, the context that follows.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial

import msgspec
from msgspec import Raw, Struct

from tests.bench.harness.bench import Bench, Pair, Row, figure
from tests.bench.harness.compacted import KEPT, compacted_native, compacted_pi
from tests.bench.harness.errors import BenchError, Missing
from tests.bench.harness.figures import at_most
from tests.bench.harness.processes import Worker
from tests.bench.harness.results import Contender, RowResult
from tests.bench.harness.rounds import Entrant, Sample
from tests.bench.harness.servers import SESSIOND, Daemon, daemon, new_home
from tests.bench.harness.workload import SESSION_ID
from tests.bench.peers.pi import CONTEXT_IN_OF_0_73, PI_1_5, PiDone, pi_worker

__all__ = ["ROW"]

ENTRIES, ENTRIES_QUICK, SHORT = 100_000, 20_000, 1000
TIMES = 20
SHORT_SESSION = Contender("sessiond, session of 1,000 entries", SESSIOND.version)


class Appended(Struct):
    """The state of a session after an append."""

    leaf_id: str
    seq: int


def compacts(ours: Daemon, entries: int) -> Sample:
    """Compactions one after the other, a message between them, which is not counted."""
    seconds = 0.0
    kept = done = Appended("", 0)
    with ours.connect() as link:
        link.ask("session/usage", {"session_id": SESSION_ID}, Raw)
        for _ in range(TIMES):
            message = {"role": "user", "content": "and on"}
            said = {"session_id": SESSION_ID, "message": message, "durability": "os"}
            kept = link.ask("session/append", said, Appended)
            asked = {
                "session_id": SESSION_ID,
                "summary": "What was said before.",
                "first_kept_entry_id": kept.leaf_id,
            }
            start = time.perf_counter()
            done = link.ask("session/compact", asked, Appended)
            seconds += time.perf_counter() - start
    if done.seq != kept.seq + 1 or done.seq < entries:
        raise BenchError("the compaction is not the line behind the message")
    return {"ms_each": seconds / TIMES * 1000}


def pi_compacts(worker: Worker, path: str) -> Sample:
    """pi's own calls in an open session."""
    done = worker.ask({"do": "compact", "path": path, "times": TIMES}, PiDone)
    if done.count != 2:
        raise BenchError(f"{done.count} messages in pi's context after its compaction")
    return {"ms_each": done.ms / TIMES}


def measure(bench: Bench, result: RowResult) -> None:
    """Both daemons hold their sessions open; so does pi."""
    entries = ENTRIES_QUICK if bench.quick else ENTRIES
    bench.tell(f"files of {entries:,} entries, {KEPT} kept")
    with ExitStack() as stack:
        homes = {
            "long": (new_home(bench.folder), entries),
            "short": (new_home(bench.folder), SHORT),
        }
        entrants: list[Entrant] = []
        for name, (home, size) in homes.items():
            compacted_native(bench.cache, home, size)
            ours = stack.enter_context(daemon(bench.folder, bench.cores.server, home))
            with ours.connect() as link:
                ours.open(link, SESSION_ID)
            entrants.append(Entrant(name, partial(compacts, ours, size)))
        try:
            worker = stack.enter_context(pi_worker(bench.cache, bench.folder, bench.cores.server))
        except Missing as missing:
            result.missing.append(str(missing))
        else:
            path = compacted_pi(bench.cache, bench.folder, entries)
            entrants.append(Entrant("pi", partial(pi_compacts, worker, str(path))))
        case = f"{entries:,} entries"
        measured = bench.contest(case, entrants)
    pair = Pair("long", "pi" if "pi" in measured else None, PI_1_5)
    made = figure(measured, pair, "ms_each", case=case, goal=at_most(1 / 500))
    result.figures.append(msgspec.structs.replace(made, peer_factor=CONTEXT_IN_OF_0_73))
    pair = Pair("long", "short", SHORT_SESSION)
    made = figure(measured, pair, "ms_each", case=f"{case}, against 1,000", goal=at_most(1.3))
    result.figures.append(made)


ROW = Row(12, "a compaction in a long session", measure)
