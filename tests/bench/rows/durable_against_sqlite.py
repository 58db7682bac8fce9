"""Row 3: durable append over the socket, against the OpenAI Agents SDK's SQLiteSession in process.

Both are durable before they answer. The SDK crosses no socket; it gets as many open calls at a time
as our client, except that 64 clients stand against 64 open calls of one process. The SDK on its
back end for sessiond (sessiond_client.openai_agents) runs in the same rounds.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import Final

from tests.bench.harness.appends import (
    IN_FLIGHT,
    ONE_BY_ONE,
    SIXTY_FOUR_CLIENTS,
    Shape,
    appends,
)
from tests.bench.harness.bench import Bench, Pair, Row, figure
from tests.bench.harness.errors import Missing
from tests.bench.harness.figures import Goal, at_least
from tests.bench.harness.processes import Worker
from tests.bench.harness.results import RowResult
from tests.bench.harness.rounds import Entrant
from tests.bench.harness.servers import Daemon, daemon
from tests.bench.harness.workload import append_frames, messages
from tests.bench.peers.openai_sdk import (
    openai_adds,
    openai_adds_to_sessiond,
    openai_contender,
    openai_worker,
)

__all__ = ["ROW"]

PEER_COUNT: Final = 900
AT_ONCE: Final = {"64 at once": 64, "one at a time": 1}
SHAPES: tuple[tuple[Shape, int, str, Goal], ...] = (
    (IN_FLIGHT, 6000, "64 at once", at_least(25)),
    (SIXTY_FOUR_CLIENTS, 4800, "64 at once", at_least(12)),
    (ONE_BY_ONE, 1500, "one at a time", at_least(2)),
)


def peers(bench: Bench, worker: Worker, mix: str) -> list[Entrant]:
    """Return the SDK with many open calls, and with one."""
    bodies = messages(mix, bench.scaled(PEER_COUNT, mix))
    source = bench.folder / "openai-messages.jsonl"
    source.write_bytes(b"".join(body + b"\n" for body in bodies))
    return [
        Entrant(name, partial(openai_adds, worker, source, len(bodies), at_once))
        for name, at_once in AT_ONCE.items()
    ]


def on_sessiond(bench: Bench, worker: Worker, ours: Daemon, mix: str) -> list[Entrant]:
    """Return the SDK on its back end for sessiond, in the same two ways."""
    source = bench.folder / "openai-messages.jsonl"
    return [
        Entrant(
            f"SessiondSession, {name}",
            partial(openai_adds_to_sessiond, worker, source, ours.socket_path, at_once),
        )
        for name, at_once in AT_ONCE.items()
    ]


def shapes(bench: Bench, ours: Daemon, mix: str) -> list[Entrant]:
    """Return the three ways to send to the daemon."""
    found = []
    for shape, number, _, _ in SHAPES:
        frames = append_frames(messages(mix, bench.scaled(number, mix)))
        run = partial(appends, ours, shape, frames, persist="immediate")
        found.append(Entrant(shape.name, run))
    return found


def measure(bench: Bench, result: RowResult) -> None:
    """Per mix both ways of the SDK and the three shapes of ours, all in every round."""
    with ExitStack() as stack:
        worker: Worker | None = None
        try:
            worker = stack.enter_context(openai_worker(bench.folder, bench.cores.server))
        except Missing as missing:
            result.missing.append(str(missing))
        ours = stack.enter_context(daemon(bench.folder, bench.cores.server))
        for mix in bench.mixes:
            entrants: list[Entrant] = []
            if worker is not None:
                entrants = peers(bench, worker, mix) + on_sessiond(bench, worker, ours, mix)
            measured = bench.contest(mix, entrants + shapes(bench, ours, mix))
            for shape, _, way, goal in SHAPES:
                pair = Pair(shape.name, way if worker is not None else None, openai_contender())
                case = f"{shape.name}, {mix}"
                result.figures.append(figure(measured, pair, "rate", case=case, goal=goal))
            for way in AT_ONCE if worker is not None else ():
                pair = Pair(f"SessiondSession, {way}", way, openai_contender())
                case = f"the SDK's own session on sessiond, {way}, {mix}"
                result.figures.append(figure(measured, pair, "rate", case=case))


ROW = Row(3, "durable append over the socket, against SQLiteSession in process", measure)
