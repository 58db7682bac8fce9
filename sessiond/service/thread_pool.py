"""Threads for one purpose, which wait for disks and databases in place of the event loop.

Law: a purpose has its own threads, and a place outside the profile has a few of them at most. So a place that
does not answer costs the work at that place. A thread lives on from work to work. Nothing here is cancelled:
what was begun ends, and its outcome is told.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from contextvars import Context, copy_context
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Final, TypeVar

import anyio
from anyio import CancelScope
from anyio.lowlevel import current_token
from msgspec import Struct

from sessiond.limits import PLACE_THREADS_MAX

T = TypeVar("T")


class Outcome(Struct, frozen=True):
    """The result of a piece of work, or the exception that it raised."""

    result: Any = None
    failure: Exception | None = None

    def get(self) -> Any:
        """Return the result. Raises the exception."""
        if self.failure is None:
            return self.result
        try:
            raise self.failure
        finally:
            # With its traceback the failure holds this frame.
            del self


class StoreThreads(Struct, frozen=True):
    """Threads that wait for one kind of store, so that no session waits for a store that has another one."""

    disk: ThreadPool
    """Threads of batches that need one step."""
    batches: ThreadPool
    """Threads of batches that need more steps."""
    looks: ThreadPool
    """Threads of looks at what foreign writers and other daemons have stored."""


_Done = Callable[[Outcome], None]


class _Job(Struct, frozen=True):
    """Piece of work, with the function that its thread calls at the end."""

    work: Callable[[], Any]
    done: _Done
    place: str


class ThreadPool:
    """A bounded set of threads, started when they are first needed.

    `place` names what the work waits for outside the profile, a root or a folder; "" is the profile.
    """

    def __init__(self, threads_max: int) -> None:
        self._max: Final = threads_max
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._changing = Lock()
        self._threads = 0
        self._busy = 0
        """Number of pieces of work that have a thread, or wait for any."""
        self._busy_at: Counter[str] = Counter()
        self._waiting: dict[str, deque[_Job]] = {}
        """Work that waits until a thread at its place is free."""
        self._call_on_loop: Callable[..., Any] | None = None
        self._context = Context()
        self._is_over = False

    def submit(
        self,
        work: Callable[[], Any],
        done: _Done,
        first: Callable[[], None] | None = None,
        place: str = "",
    ) -> None:
        """Do the work in a thread, which then calls `done`. Any thread may call. Raises RuntimeError for no thread.

        Work waits for a thread while as many are busy as there may be. `first` is called at once, before the work,
        if a thread is sure to do the work.
        """
        job = _Job(work, done, place)
        with self._changing:
            is_full = place != "" and self.is_full(place)
            if not is_full and self._busy >= self._threads < self._max:
                self._start_thread()
            if first is not None:
                first()
            if is_full:
                self._waiting.setdefault(place, deque()).append(job)
                return
            self._busy += 1
            if place:
                self._busy_at[place] += 1
            self._jobs.put(job)
            if self._is_over:
                self._end_thread()

    def is_full(self, place: str) -> bool:
        """Return whether work at a place would wait for other work there."""
        return self._busy_at[place] >= PLACE_THREADS_MAX

    def start(
        self,
        work: Callable[[], Any],
        done: _Done,
        first: Callable[[], None] | None = None,
        place: str = "",
    ) -> None:
        """Do the work as `submit` does, but call `done` on the loop, which is the caller's."""
        if self._call_on_loop is None:
            token: Any = current_token().native_token
            # asyncio and trio each have one way to call a function from another thread.
            threadsafe = getattr(token, "call_soon_threadsafe", None)
            self._call_on_loop = threadsafe or token.run_sync_soon
            # From a thread the call would come without the variables that name the event loop.
            self._context = copy_context()
        call_on_loop, context = self._call_on_loop, self._context
        assert call_on_loop is not None, "a thread is started on a loop"

        def ended(outcome: Outcome) -> None:
            try:  # noqa: SIM105 - `suppress` costs every batch three calls
                call_on_loop(context.run, done, outcome)
            except RuntimeError:
                # A loop that has ended waits for nothing.
                pass

        self.submit(work, ended, first, place)

    async def finish(
        self,
        work: Callable[[], T],
        first: Callable[[], None] | None = None,
        place: str = "",
        *,
        abandon: bool = False,
    ) -> T:
        """Do the work in a thread and return its result. A cancelled caller waits until the end, unless `abandon`.

        `first` and `place` are those of `submit`. Raises what the work raises, and RuntimeError for no thread.
        """
        ended = anyio.Event()
        outcomes: list[Outcome] = []

        def done(outcome: Outcome) -> None:
            outcomes.append(outcome)
            ended.set()

        self.start(work, done, first, place)
        with CancelScope(shield=not abandon):
            await ended.wait()
        result: T = outcomes.pop().get()
        return result

    def _start_thread(self) -> None:
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
        while (job := self._jobs.get()) is not None:
            try:
                outcome = Outcome(job.work())
            except Exception as error:  # noqa: BLE001 - who waits decides what an error means
                outcome = Outcome(failure=error)
            self._leave(job.place)
            job.done(outcome)
            del job, outcome

    def _leave(self, place: str) -> None:
        """Give this thread's room to the work that waits at the same place, or to any other work."""
        with self._changing:
            waiting = self._waiting.get(place)
            if waiting:
                self._jobs.put(waiting.popleft())
                return
            self._waiting.pop(place, None)
            self._busy -= 1
            if place:
                self._busy_at[place] -= 1
                if not self._busy_at[place]:
                    del self._busy_at[place]

    def end(self) -> None:
        """Let the threads end. Work that comes behind this point gets a thread that ends with the work."""
        with self._changing:
            self._is_over = True
            while self._threads:
                self._end_thread()

    def _end_thread(self) -> None:
        """Let one thread end behind the work that waits."""
        self._threads -= 1
        self._jobs.put(None)
