"""The waits of the blocking client, and its work beside a program: in threads, without anyio."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing
from math import inf

from sessiond_client.calls import Call
from sessiond_client.driver import CallDriver
from sessiond_client.steps import Steps, Wait

__all__ = ["ThreadWaiter", "ThreadWork"]


class ThreadWaiter:
    """Waits in a thread. `lock` is held except while waiting, so the driver runs alone."""

    clock = staticmethod(time.monotonic)

    def __init__(self, lock: threading.RLock | None = None) -> None:
        # A callback of a call, which runs under the lock, may fork.
        self.lock = lock or threading.RLock()
        self._open()

    def _open(self) -> None:
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.settimeout(0)
        self._wake_out.settimeout(0)

    def run(self, steps: Steps) -> None:
        """Take the steps of a driver to their end."""
        with self.lock, closing(steps):
            for step in steps:
                self._wait(step)

    def _wait(self, step: Wait | Call) -> None:
        if isinstance(step, Call):
            event = threading.Event()
            step.wake = event.set
            with self._unlocked():
                event.wait()
            return
        poll = select.poll()
        poll.register(self._wake_out, select.POLLIN)
        if step.on is not None:
            poll.register(step.on, select.POLLIN | (select.POLLOUT if step.write else 0))
        timeout_ms = None if step.until == inf else max(0.0, step.until - time.monotonic()) * 1000
        with self._unlocked():
            # poll() rounds a fraction up, so a deadline is over when it returns.
            poll.poll(timeout_ms)
        with contextlib.suppress(BlockingIOError):
            self._wake_out.recv(4096)

    def interrupt(self) -> None:
        """End the present wait early; called with the lock held."""
        with contextlib.suppress(BlockingIOError):
            self._wake_in.send(b"\0")

    def release(self) -> None:
        """Close what the waiting needed."""
        self._wake_in.close()
        self._wake_out.close()

    def soon(self, act: Callable[[], None]) -> None:
        """Call a function at once: the lock gives threads their turns."""
        act()

    def leave_to_parent(self) -> None:
        """Wake no thread of the process that this one was forked from."""
        self.release()
        self._open()

    @contextlib.contextmanager
    def _unlocked(self) -> Generator[None, None, None]:
        self.lock.release()
        try:
            yield
        finally:
            self.lock.acquire()


class ThreadDrivers:
    """The driver of one client, which all threads share."""

    def __init__(self, make: Callable[[ThreadWaiter], CallDriver[ThreadWaiter]]) -> None:
        first = ThreadWaiter()
        self.lock = first.lock
        self._driver = make(first)

    def waiter(self) -> ThreadWaiter:
        """Return a waiter for another driver of the client."""
        return ThreadWaiter(self.lock)

    def here(self) -> CallDriver[ThreadWaiter]:
        """Return the driver."""
        return self._driver

    def close(self) -> None:
        """Close the driver."""
        self._driver.close()


class ThreadWork:
    """Work in a thread of its own."""

    Event = threading.Event

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    def start(self, work: Callable[[], None]) -> None:
        """Begin the work."""
        self._thread = threading.Thread(target=work, name="sessiond-lease", daemon=True)
        self._thread.start()

    def pause(self, seconds: float) -> bool:
        """Wait inside the work; return whether the work goes on."""
        return not self._ended.wait(seconds)

    def stop(self, last: Callable[[], None]) -> None:
        """End the work, wait for the end, and make one last request."""
        assert self._thread is not None, "it was started"
        try:
            # In a process that was forked the thread is not there.
            if self._thread.is_alive():
                self._ended.set()
                self._thread.join()
        finally:
            last()
