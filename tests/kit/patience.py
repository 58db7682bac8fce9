"""The patience of tests with what they wait for."""

from __future__ import annotations

import inspect
import random
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar, overload

from anyio import CapacityLimiter, move_on_after, sleep, to_thread

__all__ = [
    "PATIENCE_SECONDS",
    "drawn_pause",
    "eventually",
    "happened",
    "has_happened",
    "paused",
    "soon",
    "soon_answered",
]

T = TypeVar("T")

PATIENCE_SECONDS: Final = 120
"""Seconds after which a wait hangs for good, also where other programs have the processors."""
_LOOK_SECONDS: Final = 0.005


@overload
async def eventually(
    look: Callable[[], Awaitable[T]], shows: Callable[[], object] | None = None
) -> T: ...
@overload
async def eventually(look: Callable[[], T], shows: Callable[[], object] | None = None) -> T: ...
async def eventually(
    look: Callable[[], T | Awaitable[T]], shows: Callable[[], object] | None = None
) -> T:
    """Look again and again until a look gives something true; return what the look gave.

    For what no event tells of. A test that waits for good fails, with what `shows` gives.
    """
    with move_on_after(PATIENCE_SECONDS):
        while True:
            found = look()
            seen: T = await found if inspect.isawaitable(found) else found
            if seen:
                return seen
            await sleep(_LOOK_SECONDS)
    raise TimeoutError(f"{look} has not come true: {shows and shows()}")


def soon(look: Callable[[], T | None], shows: Callable[[], object] | None = None) -> T:
    """Do as `eventually` does, in a test that has no event loop.

    `shows` gives what a test that waits for good shows of the place where it looked.
    """
    until = time.monotonic() + PATIENCE_SECONDS
    while not (seen := look()):
        assert time.monotonic() < until, f"{look} has not come true: {shows and shows()}"
        time.sleep(_LOOK_SECONDS)
    return seen


def soon_answered(ask: Callable[[], T], passes: Callable[[Exception], object]) -> T:
    """Ask again and again while the error is one that passes; return the answer.

    An error that does not pass is raised, and so is one that lasts for good.
    """
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return ask()
        except Exception as error:
            if not passes(error) or time.monotonic() > until:
                raise
        time.sleep(_LOOK_SECONDS)


def paused(chance: random.Random, low: float, high: float) -> None:
    """Pause for a time that a run's dice draw, so that an attack finds a program anywhere.

    No verdict depends on the time: the dice alone decide.
    """
    time.sleep(chance.uniform(low, high))


async def drawn_pause(chance: random.Random, low: float, high: float) -> None:
    """Do as `paused` does, in a test that has an event loop."""
    await sleep(chance.uniform(low, high))


async def happened(event: threading.Event) -> None:
    """Wait for what another thread does; fail a test that waits too long."""
    assert await has_happened(event), "it has not happened"


async def has_happened(event: threading.Event) -> bool:
    """Wait for an event in a thread that the daemon does not count; return False if the wait was too long.

    A scope that ends cannot end a wait in a thread: without a limit of its own the wait hangs for good.
    """
    return await to_thread.run_sync(event.wait, PATIENCE_SECONDS, limiter=CapacityLimiter(1))
