"""End of a daemon that no client uses.

Law: no periodic wake-up. A client that comes or goes, the end of a session in memory and a new
configuration wake the task; otherwise one timer runs.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio

from sessiond.service.service import Service


async def wait_unused(service: Service, idle_seconds: Callable[[], float]) -> None:
    """Wait until no client and no memory session existed for `idle_seconds`; 0 waits for ever."""
    while True:
        seconds = idle_seconds()
        if service.in_use or not seconds:
            await service.use_changed()
            continue
        with anyio.move_on_after(seconds) as patience:
            await service.use_changed()
        if patience.cancelled_caught and not service.in_use:
            return
