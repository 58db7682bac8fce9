"""Worker threads whose answers arrive late by dice: `python -m pytest -p tests.hesitation`.

A call into a thread starts some turns of the event loop later, and its answer arrives some turns later. So
tasks meet in orders that an idle machine never shows, and a busy one shows in one run of a hundred. On virtual
time it is turns only: there a pause would fire timers, which fire behind all that can happen without them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

import anyio.to_thread
from anyio import CancelScope, sleep
from anyio.lowlevel import checkpoint

from tests.kit.clock import is_virtual

TURNS_MAX: Final = 12
PAUSE_SECONDS_MAX: Final = 0.004

_run_sync = anyio.to_thread.run_sync


async def _hesitate() -> None:
    """Let other tasks run: nothing in half of the cases, some turns or a short pause in the other half."""
    throw = random.random()
    # An answer that is there is not lost to a cancelled caller.
    with CancelScope(shield=True):
        if throw < 0.25 or (throw < 0.5 and is_virtual()):
            for _ in range(random.randint(1, TURNS_MAX)):
                await checkpoint()
        elif throw < 0.5:
            await sleep(random.random() * PAUSE_SECONDS_MAX)


async def run_sync(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call a function in a worker thread, as `anyio.to_thread.run_sync` does."""
    await _hesitate()
    try:
        return await _run_sync(function, *arguments, **options)
    finally:
        await _hesitate()


anyio.to_thread.run_sync = run_sync  # type: ignore[assignment]
