"""The waits of the anyio client, and its work beside a program: in tasks."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import closing
from typing import Any

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from sessiond_client.calls import Call
from sessiond_client.reach import Port, Start
from sessiond_client.steps import Steps, Wait

__all__ = ["TaskWaiter", "TaskWork"]


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
