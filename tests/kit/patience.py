"""The patience of tests with what they wait for."""

from __future__ import annotations

import threading
from typing import Final

from anyio import CapacityLimiter, to_thread

__all__ = ["HANG_SECONDS", "happened", "has_happened"]

HANG_SECONDS: Final = 120
"""Seconds after which a wait hangs for good, also where other programs have the processors."""


async def happened(event: threading.Event) -> None:
    """Wait for what another thread does; fail a test that waits too long."""
    assert await has_happened(event), "it has not happened"


async def has_happened(event: threading.Event) -> bool:
    """Wait for an event in a thread that the daemon does not count; return False if the wait was too long.

    A scope that ends cannot end a wait in a thread: without a limit of its own the wait hangs for good.
    """
    return await to_thread.run_sync(event.wait, HANG_SECONDS, limiter=CapacityLimiter(1))
