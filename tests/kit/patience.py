"""The patience of tests with what they wait for."""

from __future__ import annotations

import threading
from typing import Final

from anyio import CapacityLimiter, to_thread

__all__ = ["HANG_SECONDS", "happened"]

HANG_SECONDS: Final = 120
"""Seconds after which a wait hangs for good, also where other programs have the processors."""


async def happened(event: threading.Event) -> None:
    """Wait for what another thread does; fail a test that waits too long.

    A scope that ends cannot end a wait in a thread: without a limit of its own the wait hangs for good. The
    daemon does not count the thread.
    """
    own = CapacityLimiter(1)
    assert await to_thread.run_sync(event.wait, HANG_SECONDS, limiter=own), "it has not happened"
