"""Virtual time: the event loop of a test, its threads and the clocks that they read wait for no machine.

Time stands still while anything can still happen without it: a callback is ready, a socket is readable, or
a thread is at work. When nothing else can happen, time jumps to the next deadline. So behind
`await sleep(20 * FLUSH_SECONDS)` everything that was due within that time has happened, in the order of the
deadlines, and the test has waited for none of it.

    @pytest.fixture
    def clock() -> Iterator[Clock]:
        with virtual_time() as clock:
            yield clock

A test module asks for the fixture with `pytestmark = pytest.mark.usefixtures("clock")`; `Clock.backend` gives
the event loop to anyio.

Threads at work are counted, not guessed. A thread that our code, anyio or an executor starts is at work from its start to
its end, except while it sleeps, joins a thread, or waits for a `threading.Condition` (which events, semaphores
and queues are made of). What ends such a wait counts the thread as at work again before it goes on itself:
between the two there is no moment in which time could jump.

No time passes while requests and answers come and go. A test that needs time to pass says so by `let_pass`, and
polls by `eventually`, which sleeps between two looks: a loop of requests alone would go on for ever.

Law: a wait that this module does not know holds time up, and never lets time jump too early. Such waits are
reads of pipes, locks of files and `Lock.acquire`: no thread may sleep with a lock that another thread wants.
`time.time` is untouched, for the kernel stamps files with the machine's time.
"""

from __future__ import annotations

import asyncio
import queue
import selectors
import sys
import threading
import time
from _thread import allocate_lock, get_ident
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Any, Final, TypeVar

import anyio
import pytest
import trio
import trio._threads
from trio.abc import Clock as TrioClock
from trio.abc import Instrument

__all__ = ["Clock", "is_virtual", "let_pass", "virtual_time"]

T = TypeVar("T")

_COUNTED: Final = ("sessiond", "tests", "anyio", "concurrent")
"""Packages whose threads count as at work."""
_SWEPT: Final = ("sessiond", "tests")
"""Packages whose modules read the virtual clock, also by names that they have imported."""
_BEGINNING: Final = 10_000.0
"""The time at which every test begins, as `time.monotonic` gives it."""


class Clock:
    """The time of one test. Safe in any thread."""

    def __init__(self) -> None:
        self.seconds = _BEGINNING
        """The time, as `time.monotonic` gives it."""
        self.at_work = 0
        """Number of threads that may do something before time goes on."""
        self._began_ns = time.time_ns()
        self.machine_sleep = time.sleep
        """The `sleep` that this clock replaces, which may tell a test of a call that blocks the event loop."""
        self._guard = allocate_lock()
        self._sleepers: list[tuple[float, int, _Rest]] = []
        self._numbers = count()
        self._is_over = False
        self._own_thread = get_ident()
        self._counted = threading.local()
        self._is_driving = False
        self._rings: queue.SimpleQueue[None] = queue.SimpleQueue()
        """Rings for the thread of the event loop while that thread itself waits."""
        self._wake_loop: Callable[[], object] = lambda: None

    @property
    def now_ns(self) -> int:
        """Return the time as `time.time_ns` gives it."""
        return self._began_ns + int((self.seconds - _BEGINNING) * 1e9)

    # -- threads at work ---------------------------------------------------------------------

    @property
    def is_here(self) -> bool:
        """Return whether the calling thread lives by this clock: a counted one, or the one of the event loop."""
        if self._is_over:
            return False
        if get_ident() != self._own_thread:
            return getattr(self._counted, "is_true", False)
        # Between the steps of a run of trio, the thread serves anyio's runner, which waits for real.
        return trio.lowlevel.in_trio_task() or not trio.lowlevel.in_trio_run()

    def begin(self) -> None:
        """Count a thread that is about to begin."""
        with self._guard:
            self.at_work += 1

    def enter(self) -> None:
        """Make the calling thread one of those that count."""
        self._counted.is_true = True

    def leave(self) -> None:
        """Count the calling thread no more."""
        self._counted.is_true = False
        self.end()

    def end(self) -> None:
        """Count one thread less."""
        with self._guard:
            self.at_work -= 1
            is_quiet = not self.at_work
        if is_quiet:
            self._wake()

    def _wake(self) -> None:
        """Let the thread of the event loop look whether time can jump."""
        if self._is_driving:
            self._rings.put(None)
        # The loop may have ended.
        with suppress(RuntimeError):
            self._wake_loop()

    # -- waits of threads --------------------------------------------------------------------

    def wait(self, rest: _Rest, seconds: float) -> None:
        """Wait until the rest is released, or so long."""
        deadline = self.seconds + seconds
        if get_ident() == self._own_thread:
            self._drive(rest, deadline)
            return
        with self._guard:
            if rest.is_released or (self._is_over and deadline < inf):
                return
            rest.is_waiting = True
            if deadline < inf:
                heappush(self._sleepers, (deadline, next(self._numbers), rest))
            self.at_work -= 1
            is_quiet = not self.at_work
        if is_quiet:
            self._wake()
        rest.woken.acquire()

    def _drive(self, rest: _Rest, deadline: float) -> None:
        """Let time go on while the thread of the event loop itself waits; no timer of the loop fires meanwhile."""
        self._is_driving = True
        try:
            while not rest.is_released and self.seconds < deadline:
                if self.at_work or not self.jump(deadline):
                    self._rings.get()
        finally:
            self._is_driving = False

    def release(self, rest: _Rest) -> None:
        """End a rest; the thread that waits there is at work from now on."""
        with self._guard:
            if rest.is_released:
                raise RuntimeError("release unlocked lock")
            rest.is_released = True
            self._resume(rest)
        if self._is_driving:
            self._rings.put(None)

    def _resume(self, rest: _Rest) -> None:
        if rest.is_waiting:
            rest.is_waiting = False
            self.at_work += 1
            rest.woken.release()

    # -- the way of time ---------------------------------------------------------------------

    def jump(self, deadline: float) -> bool:
        """Go to this deadline of the event loop, or to an earlier one of a thread, whose wait ends.

        Return False if there is neither, or if a thread is at work.
        """
        with self._guard:
            if self.at_work:
                return False
            while self._sleepers and not self._sleepers[0][2].is_waiting:
                heappop(self._sleepers)
            first = self._sleepers[0][0] if self._sleepers else inf
            if min(first, deadline) == inf:
                return False
            self.seconds = max(self.seconds, min(first, deadline))
            while self._sleepers and self._sleepers[0][0] <= self.seconds:
                self._resume(heappop(self._sleepers)[2])
            return True

    def close(self) -> None:
        """End the waits of threads that have a deadline; from now on threads wait by the machine's time."""
        with self._guard:
            self._is_over = True
            while self._sleepers:
                self._resume(heappop(self._sleepers)[2])

    # -- event loops -------------------------------------------------------------------------

    def backend(self, name: str) -> tuple[str, dict[str, Any]]:
        """Return what the fixture `anyio_backend` gives for an event loop with this clock."""
        if name == "trio":
            looks = _TrioLooks(self)
            return name, {"clock": looks, "instruments": [looks]}
        return name, {"loop_factory": lambda: _Loop(self)}

    def wake_by(self, wake: Callable[[], object]) -> None:
        """Wake the event loop by this function when no thread is at work any more."""
        self._wake_loop = wake


class _Rest:
    """A lock by which a thread waits for another one, as `threading.Condition` makes one for each wait."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._is_taken = False
        self.is_released = False
        self.is_waiting = False
        """True while a thread waits that does not count as at work."""
        self.woken = allocate_lock()
        self.woken.acquire()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock; the second time, wait for its release."""
        if not self._is_taken:
            self._is_taken = True
            return True
        if blocking and not self.is_released:
            self._clock.wait(self, inf if timeout < 0 else timeout)
        return self.is_released

    def release(self) -> None:
        """Let the thread that waits go on."""
        self._clock.release(self)


class _Selector(selectors.DefaultSelector):
    """Selector of an asyncio loop, which lets time jump before it waits."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return the events that there are; without one, let time jump, or wait for the threads at work."""
        # The count comes before the look, which then sees all that the threads have done.
        is_quiet = not self._clock.at_work
        due = inf if timeout is None else self._clock.seconds + timeout
        found = super().select(0)
        if found or timeout == 0 or (is_quiet and self._clock.jump(due)):
            return found
        return super().select(None)


class _Loop(asyncio.SelectorEventLoop):
    """An asyncio loop whose timers go by a `Clock`."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(_Selector(clock))
        self._clock = clock
        clock.wake_by(lambda: self.call_soon_threadsafe(lambda: None))

    def time(self) -> float:
        """Return the virtual time."""
        return self._clock.seconds


class _TrioLooks(TrioClock, Instrument):
    """The clock of a run of trio. It lets time jump behind a look for events, if no task has made a step since."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._has_looked = False

    def start_clock(self) -> None:
        """Note how to wake the run."""
        token = trio.lowlevel.current_trio_token()
        self._clock.wake_by(lambda: token.run_sync_soon(lambda: None))

    def current_time(self) -> float:
        """Return the virtual time."""
        return self._clock.seconds

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Return for how long trio may wait for events: not at all, or until one comes."""
        is_look_over, self._has_looked = self._has_looked, False
        if self._clock.at_work:
            return inf
        if is_look_over:
            return 0 if self._clock.jump(deadline) else inf
        self._has_looked = True
        return 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Note that something has happened since the look."""
        del task
        self._has_looked = False


def is_virtual() -> bool:
    """Return whether the calling thread lives by the clock of a test."""
    return _clock_here() is not None


async def let_pass(seconds: float) -> None:
    """Let time pass, so that all that is due within it has happened.

    On virtual time the test waits for nothing; the same test at a real server waits by the machine's clock.
    """
    await anyio.sleep(seconds)


# -- what stands in the place of the machine's clock and threads ---------------------------------

_clocks: Final[list[Clock]] = []
"""The clock of the running test, if the test has one."""
_machine_monotonic: Final = time.monotonic
_machine_time_ns: Final = time.time_ns
_machine_sleep: Final = time.sleep
_start_on_machine: Final = threading.Thread.start
_join_on_machine: Final = threading.Thread.join
_start_work: Final[Callable[..., None]] = trio._threads.start_thread_soon  # type: ignore[attr-defined]


@contextmanager
def virtual_time() -> Generator[Clock]:
    """Yield a clock by which the code under test lives until the end of the block."""
    clock = Clock()
    _clocks.append(clock)
    with pytest.MonkeyPatch.context() as patch:
        _patch_readings(patch)
        patch.setattr(threading, "_allocate_lock", _lock_to_wait_by)
        patch.setattr(threading.Thread, "start", _start)
        patch.setattr(threading.Thread, "join", _join)
        patch.setattr(trio._threads, "start_thread_soon", _start_counted_work)
        try:
            yield clock
        finally:
            clock.close()
            _clocks.remove(clock)


def _patch_readings(patch: pytest.MonkeyPatch) -> None:
    """Replace the functions that tell the time or wait for it, by all names under which the code has them."""
    heirs: dict[int, object] = {
        id(time.monotonic): _monotonic,
        id(time.monotonic_ns): _monotonic_ns,
        id(time.time_ns): _time_ns,
        id(time.sleep): _sleep,
        id(_machine_sleep): _sleep,
        id(queue.SimpleQueue): queue.Queue,
    }
    swept = [module for name, module in sys.modules.items() if name.partition(".")[0] in _SWEPT]
    for module in (time, queue, *swept):
        for name, value in list(vars(module).items()):
            if id(value) in heirs and module.__name__ != __name__:
                patch.setattr(module, name, heirs[id(value)])
    # By these two, queues and semaphores know how much of their patience is left.
    patch.setattr(queue, "time", _monotonic)
    patch.setattr(threading, "_time", _monotonic)


def _clock_here() -> Clock | None:
    """Return the clock by which the calling thread lives; None if that is the machine's."""
    return _clocks[-1] if _clocks and _clocks[-1].is_here else None


def _monotonic() -> float:
    clock = _clock_here()
    return clock.seconds if clock else _machine_monotonic()


def _monotonic_ns() -> int:
    return int(_monotonic() * 1e9)


def _time_ns() -> int:
    clock = _clock_here()
    return clock.now_ns if clock else _machine_time_ns()


def _sleep(seconds: float) -> None:
    clock = _clock_here()
    if clock is None or seconds <= 0:
        (_clocks[-1].machine_sleep if _clocks else _machine_sleep)(seconds)
        return
    rest = _Rest(clock)
    rest.acquire()
    rest.acquire(timeout=seconds)


def _lock_to_wait_by() -> Any:
    clock = _clock_here()
    return allocate_lock() if clock is None else _Rest(clock)


def _start(thread: Any) -> None:
    """Start a thread; count it if it is one of the code under test."""
    target = getattr(thread, "_target", None)
    module = getattr(target, "__module__", None) or type(thread).__module__
    if not _clocks or module.partition(".")[0] not in _COUNTED:
        _start_on_machine(thread)
        return
    clock, run = _clocks[-1], thread.run
    thread.has_run = threading.Event()

    def counted() -> None:
        clock.enter()
        try:
            run()
        finally:
            thread.has_run.set()
            clock.leave()

    thread.run = counted
    clock.begin()
    try:
        _start_on_machine(thread)
    except BaseException:
        thread.run = run
        clock.end()
        raise


def _join(thread: threading.Thread, timeout: float | None = None) -> None:
    """Join a thread. One that counts has its end told by an event, as the wait for its lock is not known here."""
    has_run: threading.Event | None = getattr(thread, "has_run", None)
    if has_run is None or has_run.wait(timeout):
        _join_on_machine(thread, timeout)


def _start_counted_work(
    work: Callable[[], T], deliver: Callable[[Any], object], *name: Any
) -> None:
    """Do a piece of work in a thread of trio's, which counts until the loop has the outcome."""
    clock = _clocks[-1]

    def begin() -> T:
        clock.enter()
        return work()

    def end(outcome: object) -> None:
        deliver(outcome)
        clock.leave()

    clock.begin()
    _start_work(begin, end, *name)
