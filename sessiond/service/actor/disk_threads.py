"""Threads that wait for the disk, or for a database, in place of the event loop.

Law: a thread lives on from work to work, and the end of a piece of work costs the event loop
one wake-up. Nothing here is cancelled: what was begun ends, and its outcome is always told.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context, copy_context
from queue import SimpleQueue
from threading import Thread
from typing import Any, Final, TypeVar

import anyio
from anyio import CancelScope
from anyio.lowlevel import current_token
from msgspec import Struct

__all__ = ["DiskThreads", "Outcome", "StoreThreads"]

T = TypeVar("T")


class Outcome(Struct, frozen=True):
    """The result of a piece of work, or the exception that it raised."""

    result: Any = None
    failure: Exception | None = None


class StoreThreads(Struct, frozen=True):
    """Threads that wait for one kind of store, so that no session waits for a store that has another one."""

    disk: DiskThreads
    """Threads of batches that need one step."""
    batches: DiskThreads
    """Threads of batches that need more steps."""
    looks: DiskThreads
    """Threads of looks at what foreign writers and other daemons have stored."""


_Done = Callable[[Outcome], None]
_Job = tuple[Callable[[], Any], _Done]


class DiskThreads:
    """A bounded set of threads of one event loop, started when they are first needed."""

    def __init__(self, threads_max: int) -> None:
        self._max: Final = threads_max
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads = 0
        self._busy = 0
        """Number of pieces of work that have not come back."""
        self._call_on_loop: Callable[..., Any] | None = None
        self._context = Context()
        self._is_over = False

    def start(
        self, work: Callable[[], Any], done: _Done, first: Callable[[], None] | None = None
    ) -> None:
        """Do the work in a thread, then call `done` on the loop. Raises RuntimeError for no thread.

        Work waits for a thread while as many are busy as there may be. `first` is called before the work, on
        the loop, once a thread is sure to do the work.
        """
        if self._busy >= self._threads < self._max:
            self._start_thread()
        if first is not None:
            first()
        self._busy += 1
        self._jobs.put((work, done))
        if self._is_over:
            self._end_thread()

    async def finish(self, work: Callable[[], T], first: Callable[[], None] | None = None) -> T:
        """Do the work in a thread and return its result; a cancelled caller waits until the end.

        `first` is that of `start`. Raises what the work raises, and RuntimeError for no thread.
        """
        ended = anyio.Event()
        outcomes: list[Outcome] = []

        def done(outcome: Outcome) -> None:
            outcomes.append(outcome)
            ended.set()

        self.start(work, done, first)
        with CancelScope(shield=True):
            await ended.wait()
        outcome = outcomes.pop()
        if outcome.failure is None:
            result: T = outcome.result
            return result
        try:
            raise outcome.failure
        finally:
            # With its traceback the failure holds this frame.
            del outcome

    def _start_thread(self) -> None:
        if self._call_on_loop is None:
            token: Any = current_token().native_token
            # asyncio and trio each have one way to call a function from another thread.
            threadsafe = getattr(token, "call_soon_threadsafe", None)
            self._call_on_loop = threadsafe or token.run_sync_soon
            # From a thread the call would come without the variables that name the event loop.
            self._context = copy_context()
        try:
            Thread(target=self._run, name="disk", daemon=True).start()
        except (MemoryError, RuntimeError) as error:
            if not self._threads:
                raise RuntimeError("can't start new thread") from error
            # The threads that there are do the work, too, a little later.
            return
        self._threads += 1

    def _run(self) -> None:
        """Do one piece of work after another until told to end."""
        call_on_loop = self._call_on_loop
        assert call_on_loop is not None, "a thread is started on a loop"
        while (job := self._jobs.get()) is not None:
            work, done = job
            try:
                outcome = Outcome(work())
            except Exception as error:  # noqa: BLE001 - the loop decides what an error means
                outcome = Outcome(failure=error)
            try:  # noqa: SIM105 - `suppress` costs every batch three calls
                call_on_loop(self._context.run, self._finish, done, outcome)
            except RuntimeError:
                # A loop that has ended waits for nothing.
                pass
            del job, work, done, outcome

    def _finish(self, done: _Done, outcome: Outcome) -> None:
        self._busy -= 1
        done(outcome)

    async def run(self) -> None:
        """Keep the threads until cancelled."""
        try:
            await anyio.sleep_forever()
        finally:
            # What ends behind this point may need a thread still.
            self._is_over = True
            while self._threads:
                self._end_thread()

    def _end_thread(self) -> None:
        """Let one thread end behind the work that waits."""
        self._threads -= 1
        self._jobs.put(None)
