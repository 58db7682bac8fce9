"""The search index of a daemon in tests."""

from __future__ import annotations

from sessiond.rpc.progress import NO_PROGRESS
from sessiond.testing.daemon import Daemon

__all__ = ["NoClient", "index_all"]


class NoClient:
    """Asker of work in the background."""

    progress = NO_PROGRESS
    result_meta: bytes | None = None


async def index_all(daemon: Daemon) -> None:
    """Index all sessions, as the work in the background does."""
    await daemon.service.search.catch_up(NoClient())
