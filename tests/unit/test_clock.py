"""Virtual time jumps when nothing else can happen, and not a moment earlier."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic

import anyio
import pytest
from anyio import CapacityLimiter, create_task_group, fail_after, sleep, to_thread

from tests.kit.clock import Clock, virtual_time

pytestmark = pytest.mark.both_loops

HOUR = 3600.0
work_a_while = partial(time.sleep, 0.005)
"""Keep a thread at work for a time of the machine: a clock replaces names of `time.sleep`, and no partial of it."""


@pytest.fixture
def clock() -> Iterator[Clock]:
    """Return the clock of the test."""
    with virtual_time() as clock:
        yield clock


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest, clock: Clock) -> object:
    """Return each event loop, on virtual time."""
    return clock.backend(request.param)


async def test_an_hour_takes_no_time(clock: Clock) -> None:
    began, began_here = monotonic(), clock.seconds
    await sleep(HOUR)
    assert monotonic() - began == clock.seconds - began_here == HOUR


async def test_timers_fire_in_the_order_of_their_deadlines() -> None:
    found = []

    async def note(seconds: float) -> None:
        await sleep(seconds)
        found.append(seconds)

    async with create_task_group() as tasks:
        for seconds in (3.0, 1.0, 2.0):
            tasks.start_soon(note, seconds)
    assert found == [1.0, 2.0, 3.0]


async def test_what_follows_from_a_timer_comes_before_the_next_timer() -> None:
    """A chain of pieces of work in threads begins at the first timer and ends before the second."""
    found: list[str] = []

    async def chain() -> None:
        await sleep(1)
        for _ in range(20):
            await to_thread.run_sync(work_a_while)
        found.append("chain")

    async with create_task_group() as tasks:
        tasks.start_soon(chain)
        await sleep(1.000001)
        found.append("timer")
    assert found == ["chain", "timer"]


async def test_time_stands_still_while_a_thread_is_at_work(clock: Clock) -> None:
    before = clock.seconds
    with fail_after(1e-6):
        await to_thread.run_sync(work_a_while)
    assert clock.seconds == before


async def test_time_stands_still_while_a_thread_of_its_own_is_at_work() -> None:
    """The thread reports to nothing that the event loop waits for."""
    found = []

    def work() -> None:
        work_a_while()
        found.append("work")

    threading.Thread(target=work).start()
    await sleep(1e-6)
    assert found == ["work"]


async def test_a_readable_socket_comes_before_the_jump(clock: Clock) -> None:
    ours, theirs = socket.socketpair()
    before = clock.seconds
    with ours, theirs, fail_after(1e-6):
        for _ in range(20):
            theirs.send(b"x")
            await anyio.wait_readable(ours)
            assert ours.recv(1) == b"x"
    assert clock.seconds == before


async def test_the_sleep_of_a_thread_ends_between_the_timers_of_the_loop() -> None:
    found = []

    def work() -> None:
        for _ in range(3):
            time.sleep(2)
            found.append(f"thread at {monotonic() - began:g}")

    began = monotonic()
    async with create_task_group() as tasks:
        tasks.start_soon(to_thread.run_sync, work)
        for seconds in (1, 3, 5, 7):
            await sleep(began + seconds - monotonic())
            found.append(f"loop at {seconds}")
    assert found == [
        *("loop at 1", "thread at 2", "loop at 3", "thread at 4"),
        *("loop at 5", "thread at 6", "loop at 7"),
    ]


async def test_a_thread_that_only_waits_does_not_hold_time_up() -> None:
    told = threading.Event()
    async with create_task_group() as tasks:
        tasks.start_soon(lambda: to_thread.run_sync(told.wait))
        await sleep(HOUR)
        told.set()


async def test_the_patience_of_a_thread_is_virtual() -> None:
    never: SimpleQueue[None] = SimpleQueue()

    def wait() -> None:
        assert not threading.Event().wait(HOUR)
        with pytest.raises(Empty):
            never.get(timeout=HOUR)
        assert not threading.Semaphore(0).acquire(timeout=HOUR)

    began = monotonic()
    await to_thread.run_sync(wait)
    assert monotonic() - began == 3 * HOUR


async def test_a_thread_that_is_told_something_is_at_work_again_at_once() -> None:
    """No moment lies between the work of two threads, of which one waits for the other."""
    to_do: SimpleQueue[int | None] = SimpleQueue()
    done = []

    def work() -> None:
        while (number := to_do.get()) is not None:
            work_a_while()
            done.append(number)

    threading.Thread(target=work).start()
    for number in range(10):
        to_do.put(number)
        await sleep(1e-6)
        assert done[-1] == number
    to_do.put(None)


async def test_the_threads_of_an_executor_count() -> None:
    with ThreadPoolExecutor(1) as threads:
        for _ in range(3):
            work = threads.submit(work_a_while)
            await sleep(1e-6)
            assert work.done()


async def test_a_thread_that_joins_a_sleeper_does_not_hold_time_up() -> None:
    sleeper = threading.Thread(target=time.sleep, args=(HOUR,))
    sleeper.start()
    began = monotonic()
    await to_thread.run_sync(sleeper.join)
    assert monotonic() - began == HOUR
    assert not sleeper.is_alive()


async def test_work_that_waits_for_a_thread_does_not_hold_time_up() -> None:
    limiter = CapacityLimiter(1)
    async with create_task_group() as tasks, limiter:
        tasks.start_soon(lambda: to_thread.run_sync(int, limiter=limiter))
        await sleep(HOUR)


async def test_a_wait_for_good_fails_at_once() -> None:
    with pytest.raises(TimeoutError), fail_after(HOUR):
        await anyio.Event().wait()


def test_a_test_without_a_loop_lets_threads_sleep_on(clock: Clock) -> None:
    found: SimpleQueue[float] = SimpleQueue()
    began = clock.seconds

    def work() -> None:
        for _ in range(2):
            time.sleep(HOUR)
            found.put(clock.seconds - began)

    thread = threading.Thread(target=work)
    thread.start()
    assert found.get(timeout=2 * HOUR) == HOUR
    time.sleep(HOUR / 2)
    thread.join()
    assert clock.seconds - began == 2 * HOUR


def test_a_thread_that_sleeps_still_ends_with_the_test() -> None:
    with virtual_time():
        thread = threading.Thread(target=time.sleep, args=(HOUR,))
        thread.start()
    thread.join()
