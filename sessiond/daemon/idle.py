"""The end of a daemon that nobody uses.

Law: nothing wakes up to look. A client that comes or goes, a session in memory that ends
and a new configuration say so; else one timer runs.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio

from sessiond.service.service import Service

__all__ = ["wait_unused"]


async def wait_unused(service: Service, idle_seconds: Callable[[], float]) -> None:
    """Until nobody was connected, and nothing was only in memory, for so long; 0 = for ever."""
    while True:
        seconds = idle_seconds()
        if service.in_use or not seconds:
            await service.use_changed()
            continue
        with anyio.move_on_after(seconds) as patience:
            await service.use_changed()
        if patience.cancelled_caught and not service.in_use:
            return
