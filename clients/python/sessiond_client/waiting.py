"""The two ways to wait: a task of anyio, or a thread. Nothing else differs in the clients."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from math import inf

import anyio

from sessiond_client.port import Port
from sessiond_client.starting import Start
from sessiond_client.steps import Turn, Wait

__all__ = ["TaskWaiter", "ThreadWaiter"]


class TaskWaiter:
    """Waits in a task. Tasks take turns by themselves: there is nothing to lock."""

    lock = contextlib.nullcontext()

    def __init__(self) -> None:
        self._scope: anyio.CancelScope | None = None

    async def wait(self, step: Wait | Turn) -> None:
        """Returns when what `step` names has happened."""
        if isinstance(step, Turn):
            event = anyio.Event()
            step.call.wake = event.set
            await event.wait()
            return
        with anyio.CancelScope(deadline=step.until) as self._scope:
            await _until_ready(step)
        self._scope = None

    def interrupt(self) -> None:
        """Ends the present wait early."""
        if self._scope is not None:
            self._scope.cancel()

    def release(self) -> None:
        """A task needs nothing that would have to be closed."""


async def _until_ready(step: Wait) -> None:
    if step.on is None:
        await anyio.sleep_forever()
    elif not step.write:
        await anyio.wait_readable(step.on)
    else:
        # Only with a full socket: an answer that nobody reads may be what fills it.
        async with anyio.create_task_group() as group:

            async def first(wait: Callable[[Port | Start], Awaitable[None]]) -> None:
                assert step.on is not None
                await wait(step.on)
                group.cancel_scope.cancel()

            group.start_soon(first, anyio.wait_readable)
            group.start_soon(first, anyio.wait_writable)


class ThreadWaiter:
    """Waits in a thread. `lock` is held except while waiting, so the driver runs alone."""

    def __init__(self, lock: threading.Lock) -> None:
        self.lock = lock
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.settimeout(0)
        self._wake_out.settimeout(0)

    def wait(self, step: Wait | Turn) -> None:
        """Returns when what `step` names has happened."""
        if isinstance(step, Turn):
            event = threading.Event()
            step.call.wake = event.set
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
        """Ends the present wait early; called with the lock held."""
        with contextlib.suppress(BlockingIOError):
            self._wake_in.send(b"\0")

    def release(self) -> None:
        """Closes what the waiting needed."""
        self._wake_in.close()
        self._wake_out.close()

    @contextlib.contextmanager
    def _unlocked(self) -> Generator[None, None, None]:
        self.lock.release()
        try:
            yield
        finally:
            self.lock.acquire()
