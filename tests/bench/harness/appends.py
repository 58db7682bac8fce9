"""One measurement of appends against a server: connect, load, read back.

Law: every measurement has a session of its own, and no rate is reported before all
acknowledged entries have been counted.
"""

from __future__ import annotations

from contextlib import ExitStack

from msgspec import Struct

from tests.bench.harness.load import Timing, crowd, pipelined
from tests.bench.harness.rounds import Sample
from tests.bench.harness.servers import Server
from tests.bench.harness.workload import Frames

__all__ = ["EIGHT_CLIENTS", "IN_FLIGHT", "ONE_BY_ONE", "SIXTY_FOUR_CLIENTS", "Shape", "appends"]


class Shape(Struct, frozen=True):
    """The way of requests to the server, and their number in a third of a second."""

    name: str
    clients: int
    in_flight: int


ONE_BY_ONE = Shape("1 client", 1, 1)
IN_FLIGHT = Shape("64 in flight", 1, 64)
EIGHT_CLIENTS = Shape("8 clients", 8, 1)
SIXTY_FOUR_CLIENTS = Shape("64 clients", 64, 1)


def appends(server: Server, shape: Shape, frames: Frames, *, persist: str) -> Sample:
    """Append every frame to a new session in this shape, and make sure of it."""
    with server.connect() as control:
        session = server.create(control, persist)
        own = frames.of_session(session.id)
        timing = _timed(server, shape, own)
        server.require(control, session, timing.requests)
    return timing.sample()


def _timed(server: Server, shape: Shape, frames: Frames) -> Timing:
    with ExitStack() as stack:
        links = [stack.enter_context(server.connect()) for _ in range(shape.clients)]
        if len(links) == 1:
            return pipelined(links[0], frames, shape.in_flight)
        return crowd(links, frames.dealt(len(links)))
