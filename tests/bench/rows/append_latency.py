"""Row 6: the median time of one append in a session of 1,000 or 100,000 entries, against pi's RPC mode.

`set_session_name` is the one command of pi's RPC mode that appends an entry and asks no model. Its
names are as long as our messages. Behind each append pi copies the list of all entries to find the
name again, so its time grows with the session; pi's search for an assistant's message is short here.
Beside it stands a command of an extension, which only appends: pi's shortest way, without a goal.

pi writes to the page cache, so `durability: os` has the goal and durable stands beside it. pi gets a
fresh copy of the session for each measurement, because its session would grow out of its size.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from tests.bench.harness.appends import ONE_BY_ONE
from tests.bench.harness.bench import Bench, Pair, Row, figure
from tests.bench.harness.errors import Missing
from tests.bench.harness.figures import Goal, at_most, percentile
from tests.bench.harness.grown import Grown, opened_long
from tests.bench.harness.load import pipelined
from tests.bench.harness.readback import require_in_file
from tests.bench.harness.results import Contender, RowResult
from tests.bench.harness.rounds import Entrant, Sample
from tests.bench.harness.servers import Daemon, daemon, new_home
from tests.bench.harness.stored import native_file, path_in, pi_file
from tests.bench.harness.workload import Frames, append_frames, messages
from tests.bench.peers.pi import PI
from tests.bench.peers.pi_rpc import PiRpc, append_commands, name_commands, pi_rpc

__all__ = ["ROW"]

# Entries of the session, and the goal there. Pi's time grows with the entries, so `--quick` with
# its shorter session has no second goal.
SIZES: tuple[tuple[int, Goal | None], ...] = ((1000, at_most(1 / 4)), (100_000, at_most(1 / 100)))
SIZES_QUICK: tuple[tuple[int, Goal | None], ...] = ((1000, at_most(1 / 4)), (10_000, None))
COUNT, PI_COUNT = 1500, 300
DURABILITIES: Final = ("os", "disk")
PI_NAME = Contender("pi --mode rpc, set_session_name", PI.version)
PI_EXTENSION = Contender("pi --mode rpc, a command of an extension", PI.version)
WAYS: tuple[tuple[Contender, Callable[[Sequence[bytes]], list[bytes]], str], ...] = (
    (PI_NAME, name_commands, "session_info"),
    (PI_EXTENSION, append_commands, "custom"),
)


def ours_appends(ours: Daemon, frames: Frames, grown: Grown) -> Sample:
    """Append one by one to the long session."""
    with ours.connect() as link:
        timing = pipelined(link, frames.of_session(grown.session.id), ONE_BY_ONE.in_flight)
    grown.require(len(frames))
    return timing.sample()


def pi_appends(pi: PiRpc, source: Path, commands: Sequence[bytes], kind: str) -> Sample:
    """Have pi append one by one to a copy of the long session."""
    with pi.copy_of(source) as path:
        size = path.stat().st_size
        latencies = pi.timed(commands)
        require_in_file(path, len(commands), offset=size, kind=kind)
    return {"p50_us": percentile(latencies, 0.50)}


def measure(bench: Bench, result: RowResult) -> None:
    """Measure each size with a daemon of its own, and with one pi for all."""
    with ExitStack() as stack:
        pi: PiRpc | None = None
        try:
            pi = stack.enter_context(pi_rpc(bench.cache, bench.folder, bench.cores.server))
        except Missing as missing:
            result.missing.append(str(missing))
        for entries, goal in SIZES_QUICK if bench.quick else SIZES:
            bench.tell(f"files of {entries:,} entries")
            _measure_size(bench, result, pi, (entries, goal))


def _measure_size(
    bench: Bench, result: RowResult, pi: PiRpc | None, size: tuple[int, Goal | None]
) -> None:
    entries, goal = size
    home = new_home(bench.folder)
    shutil.copyfile(native_file(bench.cache, entries), path_in(home))
    entrants = [] if pi is None else _entrants_of(bench, pi, entries)
    with daemon(bench.folder, bench.cores.server, home) as ours, ours.connect() as control:
        grown = opened_long(ours, control, entries)
        bodies = messages("mix", bench.scaled(COUNT))
        for durability in DURABILITIES:
            frames = append_frames(bodies, durability=durability)
            entrants.append(Entrant(durability, partial(ours_appends, ours, frames, grown)))
        measured = bench.contest(f"{entries:,} entries", entrants)
    for contender, _, _ in WAYS:
        for durability in DURABILITIES:
            pair = Pair(durability, contender.name if pi is not None else None, contender)
            wanted = goal if (contender, durability) == (PI_NAME, "os") else None
            case = f"{entries:,} entries, {durability}, {contender.name.rpartition(', ')[2]}"
            result.figures.append(figure(measured, pair, "p50_us", case=case, goal=wanted))


def _entrants_of(bench: Bench, pi: PiRpc, entries: int) -> list[Entrant]:
    source = pi_file(bench.cache, entries)
    bodies = messages("mix", bench.scaled(PI_COUNT))
    return [
        Entrant(contender.name, partial(pi_appends, pi, source, commands(bodies), kind))
        for contender, commands, kind in WAYS
    ]


ROW = Row(6, "median time of an append in a long session, against pi's RPC mode", measure)
