"""Rings that tell other daemons of changes, at most one in DOORBELL_SECONDS.

Law: a ring is a hint. It comes behind the change and outside the change's transaction, in a thread of
its own; a lost ring costs other daemons the time until their next poll.
"""

from __future__ import annotations

from contextlib import suppress
from threading import Event, Lock, Thread
from time import sleep

from sessiond.errors import StorageError
from sessiond.limits import DOORBELL_SECONDS
from sessiond.service.database.database import SessionDatabase


class Doorbell:
    """The rings of one daemon. Safe in any thread."""

    def __init__(self, database: SessionDatabase) -> None:
        self._database = database
        self._guard = Lock()
        self._numbers: set[int] = set()
        self._changed = Event()
        self._is_over = False
        self._thread: Thread | None = None

    def ring(self, number: int) -> None:
        """Tell other daemons soon that a session has changed. Waits for nothing."""
        if self._thread is not None and number in self._numbers:
            # A ring for the session waits, and is sent behind this call.
            return
        with self._guard:
            self._numbers.add(number)
            if self._thread is None and not self._is_over:
                thread = Thread(target=self._run, name="doorbell", daemon=True)
                # The system may have no thread now: other daemons poll.
                with suppress(RuntimeError):
                    thread.start()
                    self._thread = thread
        # A set event was not cleared yet, so the thread has not taken the numbers.
        if not self._changed.is_set():
            self._changed.set()

    def close(self) -> None:
        """Ring no more, once the last ring is over."""
        self._is_over = True
        self._changed.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while self._changed.wait():
            # Before the look at the end, whose wake-up is not to be cleared.
            self._changed.clear()
            if self._is_over:
                return
            with self._guard:
                numbers, self._numbers = self._numbers, set()
            with suppress(StorageError):
                self._database.ring(numbers)
            sleep(DOORBELL_SECONDS)
