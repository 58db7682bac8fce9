"""Row 9: opening a session that an earlier daemon closed, from its kept index, against pi.

As row 8, but the index of the session was kept. pi keeps none, and cannot open a million entries:
there the goal is a time.
"""

from __future__ import annotations

from functools import partial

import msgspec

from tests.bench.harness.bench import Bench, Pair, Row, figure
from tests.bench.harness.figures import at_most
from tests.bench.harness.opening import ours_opens
from tests.bench.harness.results import RowResult
from tests.bench.harness.rounds import Entrant
from tests.bench.harness.stored import pi_file
from tests.bench.peers.against_pi import contest_with_pi
from tests.bench.peers.pi import OPENS_IN_OF_0_73, PI_1_5
from tests.bench.rows.open_session import pi_opens

__all__ = ["ROW"]

ENTRIES, ENTRIES_QUICK = 100_000, 20_000
MANY, MANY_QUICK = 1_000_000, 200_000
MANY_MS = 2000


def measure(bench: Bench, result: RowResult) -> None:
    """Measure the long session against pi, and a very long one alone."""
    entries, many = (ENTRIES_QUICK, MANY_QUICK) if bench.quick else (ENTRIES, MANY)
    bench.tell(f"files of {entries:,} and {many:,} entries")
    case = f"{entries:,} entries"
    measured, peer = contest_with_pi(
        bench,
        result,
        case,
        partial(ours_opens, bench, entries, closed_before=True),
        lambda worker: partial(pi_opens, worker, pi_file(bench.cache, entries), entries),
    )
    pair = Pair("ours", peer, PI_1_5)
    made = figure(measured, pair, "ms", case=case, goal=at_most(1 / 50))
    result.figures.append(msgspec.structs.replace(made, peer_factor=OPENS_IN_OF_0_73))
    case = f"{many:,} entries"
    alone = [Entrant("ours", partial(ours_opens, bench, many, closed_before=True))]
    measured = bench.contest(case, alone)
    made = figure(measured, Pair("ours", None, PI_1_5), "ms", case=case, goal=at_most(MANY_MS))
    result.figures.append(msgspec.structs.replace(made, absolute=True, peer_is=None))


ROW = Row(9, "open a session with its kept index, against pi in process", measure)
