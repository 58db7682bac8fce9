"""Events that leave at once: their order, their rest in a full socket, and how the rest counts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest

from sessiond.limits import OUTBOX_BYTES_MAX
from sessiond.service.byte_budget import ByteBudget
from sessiond.transports.outbox import Outbox

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops, pytest.mark.platform]


class NarrowPort:
    """A port that takes `room` bytes, until `open` lets all the rest through."""

    peer = "narrow"

    def __init__(self, room: int) -> None:
        self.room = room
        self.is_gone = False
        self.taken: list[bytes] = []
        self._open = anyio.Event()

    def open(self) -> None:
        self.room = 1_000_000
        self._open.set()

    def send(self, data: bytes | memoryview) -> int:
        if self.is_gone:
            raise BrokenPipeError(32, "Broken pipe")
        part = bytes(data[: self.room])
        self.room -= len(part)
        if part:
            self.taken.append(part)
        return len(part)

    async def wait_writable(self) -> None:
        await self._open.wait()

    def recv(self) -> bytes | None:
        raise AssertionError("an outbox receives nothing")

    async def wait_readable(self) -> None:
        raise AssertionError("an outbox receives nothing")

    async def pump(self, step: Callable[[], bool]) -> None:
        raise AssertionError("an outbox receives nothing")

    def close(self) -> None:
        """Do nothing: nothing is open."""


class Bench:
    """An outbox at a port with so much room."""

    def __init__(self, room: int) -> None:
        self.port = NarrowPort(room)
        self.drains: list[Callable[[], Awaitable[None]]] = []
        self.broken: list[str] = []
        self.budget = ByteBudget()
        self.outbox = Outbox(
            self.port,
            self.drains.append,
            self.budget,
            moved=lambda: None,
            broken=self.broken.append,
        )

    def waiting(self) -> tuple[int, int]:
        """Return the bytes of answers and of events that wait."""
        figures = self.outbox.statistics()
        return figures.answer_bytes, figures.pending_bytes - figures.answer_bytes


async def test_an_event_for_an_empty_outbox_is_sent_at_once() -> None:
    bench = Bench(room=100)
    assert bench.outbox.deliver(b"event\n")
    assert bench.port.taken == [b"event\n"]
    assert bench.waiting() == (0, 0)


async def test_an_event_does_not_overtake_an_answer_that_waits_for_the_flush() -> None:
    bench = Bench(room=100)
    bench.outbox.put(b"answer\n")
    assert bench.outbox.deliver(b"event\n")
    assert bench.port.taken == [b"answer\nevent\n"]


async def test_the_rest_of_an_event_waits_as_an_event_and_comes_before_what_follows() -> None:
    bench = Bench(room=2)
    assert bench.outbox.deliver(b"event\n")
    # Rule 4: a socket that takes nothing is given up only if an answer waits.
    assert bench.waiting() == (0, 4)
    assert bench.budget.held_bytes == 4
    bench.outbox.put(b"answer\n")
    assert bench.outbox.deliver(b"later\n")
    (drain,) = bench.drains
    bench.port.open()
    await drain()
    assert b"".join(bench.port.taken) == b"event\nanswer\nlater\n"
    assert bench.waiting() == (0, 0)
    assert bench.budget.held_bytes == 0


async def test_a_closed_outbox_takes_an_event_and_sends_nothing() -> None:
    bench = Bench(room=100)
    bench.outbox.close()
    assert bench.outbox.deliver(b"event\n")
    assert bench.port.taken == []


async def test_all_who_wait_for_room_go_on_when_the_outbox_ends() -> None:
    bench = Bench(room=1)
    assert bench.outbox.deliver(b"e" * OUTBOX_BYTES_MAX)
    async with anyio.create_task_group() as tasks:
        for _ in range(2):
            tasks.start_soon(bench.outbox.wait_room)
        await anyio.wait_all_tasks_blocked()
        bench.outbox.close()
    # An outbox that has ended holds up nobody.
    await bench.outbox.wait_room()


async def test_an_event_that_finds_the_other_end_gone_leaves_nothing_behind() -> None:
    bench = Bench(room=100)

    bench.port.is_gone = True
    assert bench.outbox.deliver(b"event\n")
    assert bench.broken == ["the other end is gone: Broken pipe"]
    assert (bench.waiting(), bench.drains) == ((0, 0), [])
