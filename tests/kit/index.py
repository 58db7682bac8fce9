"""The search index of a daemon in tests."""

from __future__ import annotations

import anyio

from sessiond.daemon.retention_timer import keep_index
from sessiond.testing.daemon import Daemon
from sessiond.testing.wire import Wire
from tests.kit.patience import eventually

__all__ = ["index_all"]


async def index_all(daemon: Daemon, wire: Wire) -> None:
    """Let the work in the background index all sessions, and end."""

    async def is_over() -> bool:
        return "looking" not in await wire.call("session/search", query="word", whole=False)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keep_index, daemon.service)
        await eventually(is_over)
        tasks.cancel_scope.cancel()
