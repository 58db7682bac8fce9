"""The waits of the anyio client, and its work beside a program: in tasks."""

from __future__ import annotations

import contextlib
from asyncio import AbstractEventLoop
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import closing
from threading import Lock
from typing import Any

import anyio
from anyio import NoEventLoopError
from anyio.abc import TaskGroup
from anyio.lowlevel import EventLoopToken, checkpoint, current_token

from sessiond_client.calls import Call
from sessiond_client.driver import CallDriver
from sessiond_client.forks import look_for_forks
from sessiond_client.reach import Port, Start
from sessiond_client.steps import Steps, Wait

__all__ = ["TaskDrivers", "TaskWaiter", "TaskWork"]


class TaskWaiter:
    """Waits in a task. Tasks take turns by themselves: there is nothing to lock."""

    lock = contextlib.nullcontext()
    clock = staticmethod(anyio.current_time)

    def __init__(self) -> None:
        self._scope: anyio.CancelScope | None = None
        self._loop: EventLoopToken | None = None
        """The event loop of the last waits."""

    async def run(self, steps: Steps) -> None:
        """Take the steps of a driver to their end, with a checkpoint at least."""
        self._loop = current_token()
        has_waited = False
        with closing(steps):
            for step in steps:
                has_waited = True
                await self._wait(step)
        if not has_waited:
            await checkpoint()

    async def _wait(self, step: Wait | Call) -> None:
        if isinstance(step, Call):
            event = anyio.Event()
            step.wake = event.set
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
        """Do nothing: a task has nothing to close."""

    def leave_to_parent(self) -> None:
        """Wait in any event loop of a process that was forked."""
        self._scope = self._loop = None

    def soon(self, act: Callable[[], None]) -> None:
        """Call a function where the waits are: at once, unless that is another event loop that runs."""
        loop = self._loop
        if loop is None or loop == _here() or not (_runs(loop) and _takes(loop, act)):
            act()


class TaskDrivers:
    """The drivers of one client: each event loop that uses the client has one, with a connection of its own."""

    def __init__(self, make: Callable[[TaskWaiter], CallDriver[TaskWaiter]]) -> None:
        self.lock = Lock()
        """The lock of what tasks of several event loops change."""
        self.waiter = TaskWaiter
        """Returns a waiter for another driver of the client."""
        self._make = make
        self._by_loop: dict[EventLoopToken, CallDriver[TaskWaiter]] = {}
        self._is_closed = False
        look_for_forks(self)

    def leave_to_parent(self) -> None:
        """Forget the event loops of the process that this one was forked from."""
        for driver in self._by_loop.values():
            driver.leave_to_parent()
        self._by_loop.clear()

    def here(self) -> CallDriver[TaskWaiter]:
        """Return the driver of this event loop; close those of event loops that have ended."""
        here = current_token()
        if (driver := self._by_loop.get(here)) is not None:
            return driver
        with self.lock:
            for loop in [loop for loop in self._by_loop if not _takes(loop, _nothing)]:
                self._by_loop.pop(loop).close()
            driver = self._by_loop[here] = self._make(self.waiter())
            if self._is_closed:
                driver.close()
            return driver

    def close(self) -> None:
        """Close all drivers, and each one that is made later."""
        with self.lock:
            self._is_closed = True
            for driver in self._by_loop.values():
                driver.close()


def _here() -> EventLoopToken | None:
    try:
        return current_token()
    except NoEventLoopError:
        return None


def _runs(loop: EventLoopToken) -> bool:
    """Return False for an event loop that rests between two runs."""
    native: Any = loop.native_token
    return not isinstance(native, AbstractEventLoop) or native.is_running()


def _takes(loop: EventLoopToken, act: Callable[[], None]) -> bool:
    """Let an event loop of any thread call a function soon; return False if the loop has ended."""
    native: Any = loop.native_token
    is_asyncio = isinstance(native, AbstractEventLoop)
    try:
        (native.call_soon_threadsafe if is_asyncio else native.run_sync_soon)(act)
    except RuntimeError:
        return False
    return True


def _nothing() -> None:
    """Do nothing: to be taken is the answer."""


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

    async def stop(self, last: Callable[[], Awaitable[None]]) -> None:
        """End the work, wait for the end, and make one last request, which nothing cancels."""
        assert self._tasks is not None, "it was started"
        self._tasks.cancel_scope.cancel()
        try:
            # What went wrong elsewhere is not the group's: it goes on as it is, in no other group.
            await self._tasks.__aexit__(None, None, None)
        finally:
            with anyio.CancelScope(shield=True):
                await last()
