"""The load generator: requests that are ready as bytes go out, newlines that come back count.

Law: nothing is encoded, decoded or allocated per request while the clock runs; what
was answered is checked afterwards by reading it back. A generator that is busy all
the time measures itself, so each timing says how busy it was.
"""

from __future__ import annotations

import select
import time
from collections.abc import Sequence

from msgspec import Struct

from tests.bench.harness.errors import BenchError
from tests.bench.harness.figures import percentile
from tests.bench.harness.link import TIMEOUT_SECONDS, Link, require_no_error
from tests.bench.harness.workload import Frames

__all__ = ["Timing", "crowd", "pipelined", "watched"]

Marks = list[tuple[int, int]]
"""(how many requests so far, when in ns)."""


class Timing(Struct, frozen=True):
    """The time that a load took."""

    requests: int
    seconds: float
    latencies_us: list[float]
    busy: float
    """Share of the time that the generator spent on the processor."""

    @property
    def rate(self) -> float:
        """Requests a second."""
        return self.requests / self.seconds

    def sample(self) -> dict[str, float]:
        """Return the timing as the metrics of a round."""
        return {
            "rate": self.rate,
            "p50_us": percentile(self.latencies_us, 0.50),
            "p99_us": percentile(self.latencies_us, 0.99),
            "generator_busy": self.busy,
        }


def pipelined(link: Link, frames: Frames, in_flight: int) -> Timing:
    """Send over one connection, with at most `in_flight` open requests at any time."""
    total = len(frames)
    send, receive, buffer = link.socket.sendall, link.socket.recv_into, link.buffer
    count, now, part = buffer.count, time.perf_counter_ns, frames.part
    sends: Marks = []
    receipts: Marks = []
    sent = answered = got = 0
    first = b""
    busy, start = time.process_time_ns(), now()
    while answered < total:
        upto = min(answered + in_flight, total)
        if upto > sent:
            sends.append((upto, now()))
            send(part(sent, upto))
            sent = upto
        got = receive(buffer)
        if not got:
            raise BenchError(f"the server hung up after {answered} of {total} answers")
        if found := count(b"\n", 0, got):
            answered += found
            receipts.append((answered, now()))
            first = first or bytes(buffer[:got])
    elapsed, busy = now() - start, time.process_time_ns() - busy
    require_no_error(first)
    require_no_error(bytes(buffer[:got]))
    return Timing(total, elapsed / 1e9, _latencies(sends, receipts), busy / elapsed)


def _latencies(sends: Marks, receipts: Marks) -> list[float]:
    """Return the latency of each request in µs; answers come in the order of requests."""
    found: list[float] = []
    at = iter(sends)
    sent, sent_at = next(at)
    done = 0
    for answered, answered_at in receipts:
        while done < answered:
            if done >= sent:
                sent, sent_at = next(at)
            upto = min(answered, sent)
            found += [(answered_at - sent_at) / 1000] * (upto - done)
            done = upto
    return found


def crowd(links: Sequence[Link], loads: Sequence[Frames]) -> Timing:
    """Many connections, each with one request at a time, served as they become readable."""
    poll = select.poll()
    by_fd = {link.socket.fileno(): (link, load) for link, load in zip(links, loads, strict=True)}
    position = dict.fromkeys(by_fd, 0)
    sent_at = dict.fromkeys(by_fd, 0)
    latencies: list[int] = []
    total = sum(map(len, loads))
    now = time.perf_counter_ns
    busy, start = time.process_time_ns(), now()
    for fd, (link, load) in by_fd.items():
        poll.register(fd, select.POLLIN)
        sent_at[fd] = now()
        link.socket.sendall(load.part(0, 1))
    while len(latencies) < total:
        for fd, _ in _ready(poll):
            link, load = by_fd[fd]
            got = link.socket.recv_into(link.buffer)
            if not got:
                raise BenchError("the server hung up on one of many")
            if not link.buffer.count(b"\n", 0, got):
                continue
            at = now()
            latencies.append(at - sent_at[fd])
            position[fd] = next_one = position[fd] + 1
            if next_one < len(load):
                sent_at[fd] = at
                link.socket.sendall(load.part(next_one, next_one + 1))
            else:
                require_no_error(bytes(link.buffer[:got]))
    elapsed, busy = now() - start, time.process_time_ns() - busy
    return Timing(total, elapsed / 1e9, [ns / 1000 for ns in latencies], busy / elapsed)


def watched(link: Link, watcher: Link, frames: Frames, in_flight: int) -> Timing:
    """Send as `pipelined` does, until a subscriber on another connection has every event, too."""
    total = len(frames)
    poll = select.poll()
    poll.register(link.socket, select.POLLIN)
    poll.register(watcher.socket, select.POLLIN)
    own = link.socket.fileno()
    sends: Marks = []
    receipts: Marks = []
    sent = answered = seen = 0
    now = time.perf_counter_ns
    busy, start = time.process_time_ns(), now()
    while answered < total or seen < total:
        upto = min(answered + in_flight, total)
        if upto > sent:
            sends.append((upto, now()))
            link.socket.sendall(frames.part(sent, upto))
            sent = upto
        for fd, _ in _ready(poll):
            side = link if fd == own else watcher
            got = side.socket.recv_into(side.buffer)
            if not got:
                raise BenchError("the server hung up")
            found = side.buffer.count(b"\n", 0, got)
            if side is watcher:
                seen += found
            elif found:
                answered += found
                receipts.append((answered, now()))
    elapsed, busy = now() - start, time.process_time_ns() - busy
    require_no_error(bytes(link.buffer))
    return Timing(total, elapsed / 1e9, _latencies(sends, receipts), busy / elapsed)


def _ready(poll: select.poll) -> list[tuple[int, int]]:
    ready = poll.poll(TIMEOUT_SECONDS * 1000)
    if not ready:
        raise BenchError(f"nothing came for {TIMEOUT_SECONDS} s")
    return ready
