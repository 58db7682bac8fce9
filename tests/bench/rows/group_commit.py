"""Row 15: 64 clients on a disk that takes 2 ms longer to sync: group commit against sync per request.

The peer is the daemon with batches of one entry on the same disk, so only the group commit differs.
Beside it stands the bare loop of write and fdatasync, without clients.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import Final

from tests.bench.harness import slow_disk
from tests.bench.harness.appends import SIXTY_FOUR_CLIENTS, appends
from tests.bench.harness.bench import Bench, Pair, Row, figure
from tests.bench.harness.errors import BenchError
from tests.bench.harness.figures import at_least
from tests.bench.harness.results import Contender, RowResult
from tests.bench.harness.rounds import Entrant, Sample
from tests.bench.harness.servers import SESSIOND, Daemon, daemon
from tests.bench.harness.workload import Frames, append_frames, messages
from tests.bench.peers.disk import LOOP, disk_loop, lines_file, looped

__all__ = ["ROW", "require_delay"]

DELAY_MS: Final = 2
UNBOUNDED: Final = 1024
COUNT, COUNT_EACH = 9600, 640
GOAL = at_least(25)
EACH = Contender("sessiond with batches of one", SESSIOND.version)
SLOW_LOOP = Contender(f"{LOOP.name}, +{DELAY_MS} ms", LOOP.version)


def require_delay(sample: Sample, entries: int) -> Sample:
    """Require that no sync of so many entries took less than the delay. Raises BenchError."""
    most = entries * 1000 / DELAY_MS
    if sample["rate"] > most:
        raise BenchError(
            f"{sample['rate']:.0f} appends a second; with the delay {most:.0f} at most"
        )
    return sample


def delayed(server: Daemon, frames: Frames, entries: int) -> Sample:
    """Append from 64 clients, at most `entries` of them in one sync."""
    sample = appends(server, SIXTY_FOUR_CLIENTS, frames, persist="immediate")
    return require_delay(sample, entries)


def measure(bench: Bench, result: RowResult) -> None:
    """Per mix both daemons and the loop, in every round."""
    core = bench.cores.server
    with ExitStack() as stack:
        worker = stack.enter_context(disk_loop(bench.folder, core))
        group, each = (
            stack.enter_context(
                daemon(bench.folder, core, command=slow_disk.command(DELAY_MS, entries))
            )
            for entries in (UNBOUNDED, 1)
        )
        for mix in bench.mixes:
            number, few = bench.scaled(COUNT, mix), bench.scaled(COUNT_EACH, mix)
            frames, some = (append_frames(messages(mix, count)) for count in (number, few))
            source = lines_file(bench.folder, mix, few)
            entrants = [
                Entrant("loop", partial(looped, worker, source, few, delay_ms=DELAY_MS)),
                Entrant("each", partial(delayed, each, some, 1)),
                Entrant("group", partial(delayed, group, frames, SIXTY_FOUR_CLIENTS.clients)),
            ]
            case = f"64 clients, {mix}"
            measured = bench.contest(case, entrants)
            result.figures += [
                figure(measured, Pair("group", "each", EACH), "rate", case=case, goal=GOAL),
                figure(measured, Pair("group", "loop", SLOW_LOOP), "rate", case=f"{case}, bare"),
            ]


ROW = Row(15, "64 clients, +2 ms a sync: group commit against sync per request", measure)
