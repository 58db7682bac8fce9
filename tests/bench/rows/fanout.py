"""Row 14: fan-out to 1, 100 and 1,000 subscribers, against the raw server's joined writes.

The clock runs until the answer and the last subscriber's event are there; by then every event is in
its subscriber's socket. The other sockets are emptied with the clock stopped, so that a thousand
reads of this process do not hide the cost of a thousand writes. If a subscriber lacks an event
then, the wait for the event counts.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial

from tests.bench.harness.bench import Bench, Pair, Row, figure
from tests.bench.harness.errors import BenchError
from tests.bench.harness.figures import at_least
from tests.bench.harness.link import Link
from tests.bench.harness.results import RowResult
from tests.bench.harness.rounds import Entrant, Sample
from tests.bench.harness.servers import Server, Session, daemon, raw_server
from tests.bench.harness.workload import Frames, append_frames, messages

__all__ = ["ROW"]

GOAL = at_least(0.95)
BURST = 64
# Subscribers, and how many single events and bursts make a measurement.
CROWDS = ((1, 3000, 100), (100, 300, 80), (1000, 60, 20))
# A burst of 20 KB entries is more than a socket holds: the wait for the reader would be measured.
BURST_MIXES = ("mix", "300 B", "2 KB")


class Audience:
    """A session of a server, with its writer and its subscribers, for all rounds."""

    def __init__(self, server: Server, subscribers: int, stack: ExitStack) -> None:
        self.server = server
        self.writer: Link = stack.enter_context(server.connect())
        self.session: Session = server.create(self.writer, "never")
        self.links = [stack.enter_context(server.connect()) for _ in range(subscribers)]
        # Every line is counted, so hints about the session are not asked for.
        wanted = {"session_id": self.session.id, "signals": False}
        for link in self.links:
            link.ask("session/subscribe", wanted, dict)

    def told(self, frames: Frames, each: int) -> Sample:
        """Events delivered a second, `each` at a time, every one counted at every subscriber."""
        own = frames.of_session(self.session.id)
        last, others = self.links[-1], self.links[:-1]
        seconds = 0.0
        late = 0
        now = time.perf_counter
        for first in range(0, len(own), each):
            upto = min(first + each, len(own))
            start = now()
            self.writer.socket.sendall(own.part(first, upto))
            _take(self.writer, upto - first)
            _take(last, upto - first)
            seconds += now() - start
            for link in others:
                waited = _take(link, upto - first)
                late += waited > 0
                seconds += waited
        self.server.require(self.writer, self.session, len(own))
        return {"rate": len(own) * len(self.links) / seconds, "late": late}


def _take(link: Link, lines: int) -> float:
    """Take so many lines; gives the time for which they were not there yet."""
    waited = 0.0
    flag = socket.MSG_DONTWAIT
    while lines > 0:
        try:
            got = link.socket.recv_into(link.buffer, 0, flag)
        except BlockingIOError:
            start = time.perf_counter()
            got = link.socket.recv_into(link.buffer)
            waited += time.perf_counter() - start
        if not got:
            raise BenchError("the server hung up")
        lines -= link.buffer.count(b"\n", 0, got)
    if lines:
        raise BenchError("a subscriber got more lines than there were events")
    return waited


def measure(bench: Bench, result: RowResult) -> None:
    """Per crowd and mix a pair of servers that keep it for all their rounds."""
    for subscribers, singles, bursts in CROWDS:
        for mix in bench.mixes:
            with ExitStack() as stack:
                peer = stack.enter_context(raw_server(bench.folder, bench.cores.server))
                ours = stack.enter_context(daemon(bench.folder, bench.cores.server))
                sides = [Audience(server, subscribers, stack) for server in (peer, ours)]
                one = append_frames(messages(mix, bench.scaled(singles, mix)))
                _compare(bench, result, sides, (f"{subscribers} x single, {mix}", one, 1))
                if mix in BURST_MIXES:
                    many = append_frames(messages(mix, bench.scaled(bursts) * BURST))
                    _compare(bench, result, sides, (f"{subscribers} x bursts, {mix}", many, BURST))


def _compare(
    bench: Bench, result: RowResult, sides: Sequence[Audience], load: tuple[str, Frames, int]
) -> None:
    case, frames, each = load
    peer, ours = sides
    entrants = [
        Entrant("peer", partial(peer.told, frames, each)),
        Entrant("ours", partial(ours.told, frames, each)),
    ]
    measured = bench.contest(case, entrants)
    pair = Pair("ours", "peer", peer.server.contender)
    made = figure(measured, pair, "rate", case=case, goal=GOAL)
    for name, metrics in measured.items():
        if sum(metrics["late"]):
            made.notes.append(f"{name}: {sum(metrics['late']):.0f} events came late")
    result.figures.append(made)


ROW = Row(14, "fan-out to subscribers, against raw joined writes", measure)
