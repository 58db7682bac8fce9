"""The two ways to wait: a task of anyio, or a thread. Nothing else differs in the clients."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import closing
from math import inf
from typing import Any

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from sessiond_client.port import Port
from sessiond_client.starting import Start
from sessiond_client.steps import Turn, Wait

__all__ = ["TaskWaiter", "TaskWork", "ThreadWaiter", "ThreadWork"]

Steps = Generator[Wait | Turn, None, None] | Generator[Wait, None, None]


class TaskWaiter:
    """Waits in a task. Tasks take turns by themselves: there is nothing to lock."""

    lock = contextlib.nullcontext()
    clock = staticmethod(anyio.current_time)

    def __init__(self) -> None:
        self._scope: anyio.CancelScope | None = None

    def another(self) -> TaskWaiter:
        """Return a waiter for another driver of the same client."""
        return TaskWaiter()

    async def run(self, steps: Steps) -> None:
        """Take the steps of a driver to their end, with a checkpoint at least."""
        has_waited = False
        with closing(steps):
            for step in steps:
                has_waited = True
                await self._wait(step)
        if not has_waited:
            await checkpoint()

    async def _wait(self, step: Wait | Turn) -> None:
        if isinstance(step, Turn):
            event = anyio.Event()
            step.call.wake = event.set
            await event.wait()
            return
        with anyio.CancelScope(deadline=step.until) as self._scope:
            await _until_ready(step)
        self._scope = None

    def interrupt(self) -> None:
        """End the present wait early."""
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


class TaskWork:
    """Work in a task of its own."""

    Event = anyio.Event

    def __init__(self) -> None:
        self._tasks: TaskGroup | None = None

    async def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin the work."""
        self._tasks = await anyio.create_task_group().__aenter__()
        self._tasks.start_soon(work)

    async def pause(self, seconds: float) -> bool:
        """Wait inside the work; return whether the work goes on."""
        await anyio.sleep(max(0.0, seconds))
        return True

    async def stop(self) -> None:
        """End the work and wait for the end."""
        assert self._tasks is not None, "it was started"
        self._tasks.cancel_scope.cancel()
        # What went wrong elsewhere is not the group's: it goes on as it is, in no other group.
        await self._tasks.__aexit__(None, None, None)

    def shield(self) -> anyio.CancelScope:
        """Return what keeps a last request from being cancelled."""
        return anyio.CancelScope(shield=True)


class ThreadWaiter:
    """Waits in a thread. `lock` is held except while waiting, so the driver runs alone."""

    clock = staticmethod(time.monotonic)

    def __init__(self, lock: threading.Lock | None = None) -> None:
        self.lock = lock or threading.Lock()
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.settimeout(0)
        self._wake_out.settimeout(0)

    def another(self) -> ThreadWaiter:
        """Return a waiter for another driver of the same client."""
        return ThreadWaiter(self.lock)

    def run(self, steps: Steps) -> None:
        """Take the steps of a driver to their end."""
        with self.lock, closing(steps):
            for step in steps:
                self._wait(step)

    def _wait(self, step: Wait | Turn) -> None:
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
        """End the present wait early; called with the lock held."""
        with contextlib.suppress(BlockingIOError):
            self._wake_in.send(b"\0")

    def release(self) -> None:
        """Close what the waiting needed."""
        self._wake_in.close()
        self._wake_out.close()

    @contextlib.contextmanager
    def _unlocked(self) -> Generator[None, None, None]:
        self.lock.release()
        try:
            yield
        finally:
            self.lock.acquire()


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

    def stop(self) -> None:
        """End the work and wait for the end."""
        assert self._thread is not None, "it was started"
        self._ended.set()
        self._thread.join()

    def shield(self) -> contextlib.nullcontext[Any]:
        """Return what keeps a last request from being cancelled: nothing cancels a thread."""
        return contextlib.nullcontext()
