"""Row 4: durable append over the socket, against a bare loop of write and fdatasync.

One by one the daemon cannot win: it adds a socket and a thread to the sync. With many waiting
appends, one sync serves all of them.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path

from tests.bench.harness.appends import (
    IN_FLIGHT,
    ONE_BY_ONE,
    SIXTY_FOUR_CLIENTS,
    Shape,
    appends,
)
from tests.bench.harness.bench import Bench, Pair, Row, figure
from tests.bench.harness.figures import Goal, at_least
from tests.bench.harness.processes import Program, Worker, working
from tests.bench.harness.readback import require_in_file
from tests.bench.harness.results import Contender, RowResult
from tests.bench.harness.rounds import Entrant, Sample
from tests.bench.harness.servers import daemon
from tests.bench.harness.workload import append_frames, messages, native_line
from tests.bench.peers.disk_loop import Done

__all__ = ["ROW"]

LOOP = Contender("write + fdatasync loop", f"Python {sys.version.split()[0]}")
LOOP_COUNT = 1500
SHAPES: tuple[tuple[Shape, int, Goal], ...] = (
    (IN_FLIGHT, 6000, at_least(5)),
    (SIXTY_FOUR_CLIENTS, 4800, at_least(2.5)),
    (ONE_BY_ONE, 1500, at_least(0.45)),
)
_copies = count(1)


def looped(worker: Worker, source: Path, lines: int, folder: Path) -> Sample:
    """Let the loop write the lines of a file to a new file."""
    copy = folder / f"loop-{next(_copies)}.jsonl"
    done = worker.ask({"lines": str(source), "to": str(copy)}, Done)
    require_in_file(copy, lines)
    copy.unlink()
    return {"rate": done.count / done.seconds}


def measure(bench: Bench, result: RowResult) -> None:
    """Per mix one loop and the three shapes of ours, all in every round."""
    program = Program(
        name=LOOP.name,
        command=[sys.executable, "-m", "tests.bench.peers.disk_loop"],
        log=bench.folder / "loop.log",
        core=bench.cores.server,
        pipes=True,
    )
    with ExitStack() as stack:
        worker = stack.enter_context(working(program))
        ours = stack.enter_context(daemon(bench.folder, bench.cores.server))
        for mix in bench.mixes:
            lines = bench.scaled(LOOP_COUNT, mix)
            source = bench.folder / "lines.jsonl"
            bodies = messages(mix, lines)
            source.write_bytes(b"".join(map(native_line, range(lines), bodies)))
            entrants = [Entrant("loop", partial(looped, worker, source, lines, bench.folder))]
            for shape, number, _ in SHAPES:
                frames = append_frames(messages(mix, bench.scaled(number, mix)))
                run = partial(appends, ours, shape, frames, persist="immediate")
                entrants.append(Entrant(shape.name, run))
            measured = bench.contest(mix, entrants)
            for shape, _, goal in SHAPES:
                pair = Pair(shape.name, "loop", LOOP)
                case = f"{shape.name}, {mix}"
                result.figures.append(figure(measured, pair, "rate", case=case, goal=goal))


ROW = Row(4, "durable append over the socket, against a bare write + fdatasync loop", measure)
