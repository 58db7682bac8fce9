"""The thread that brings signals and presence to the database, so that the event loop never waits.

Law: a signal that comes while a write runs is in the next write of its session, so a stream of signals costs
one statement for each answer of the database, and not one for each signal.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Lock, Thread

from sessiond.errors import StorageError
from sessiond.limits import SIGNALS_RETRY_SECONDS
from sessiond.service.database.company.outgoing import Outgoing


class Courier:
    """The writes of one daemon. Safe in any thread."""

    def __init__(self, ring: Callable[[int], None]) -> None:
        """Take the function that tells other daemons of a change of a session."""
        self._ring = ring
        self._guard = Lock()
        self._waiting: dict[Outgoing, None] = {}
        self._changed = Event()
        self._over = Event()
        self._thread: Thread | None = None

    def wake(self, outgoing: Outgoing) -> None:
        """Write soon what an opening has to tell. Waits for nothing; raises RuntimeError for no thread."""
        with self._guard:
            if self._thread is None and not self._over.is_set():
                thread = Thread(target=self._run, name="courier", daemon=True)
                thread.start()
                # Not before: a thread that could not be started is started by the next call.
                self._thread = thread
            self._waiting[outgoing] = None
        self._changed.set()

    def close(self) -> None:
        """Write no more, once the last write is over."""
        self._over.set()
        self._changed.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while self._changed.wait():
            # Before the look at the end, whose wake-up is not to be cleared.
            self._changed.clear()
            if self._over.is_set():
                return
            with self._guard:
                waiting, self._waiting = self._waiting, {}
            failed = self._first_failed(waiting)
            if failed is not None:
                # Another opening is the first to be tried again.
                with self._guard:
                    self._waiting = waiting | self._waiting | {failed: None}
                self._over.wait(SIGNALS_RETRY_SECONDS)
                self._changed.set()

    def _first_failed(self, waiting: dict[Outgoing, None]) -> Outgoing | None:
        """Write for one opening after another, until one fails; return that one."""
        while waiting and not self._over.is_set():
            outgoing = next(iter(waiting))
            del waiting[outgoing]
            try:
                outgoing.write()
            except StorageError:
                return outgoing
            self._ring(outgoing.number)
        return None
