"""Progress of a call of `sessiond mcp`: the newest report only, and none after the call."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import anyio
import anyio.lowlevel
import pytest

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.interop]


class Slow:
    """A client that takes one report, and then no more until it is asked to."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.reads = anyio.Semaphore(1)

    async def report_progress(self, *report: Any) -> None:
        """Take a report."""
        await self.reads.acquire()
        self.told.append(report)


async def settle() -> None:
    for _ in range(20):
        await anyio.lowlevel.checkpoint()


async def test_the_newest_report_replaces_those_that_wait() -> None:
    from sessiond.mcp.server import _progress

    client = Slow()
    context: Any = SimpleNamespace(meta={"progress_token": 7}, session=client)
    async with _progress(context) as options:
        report = options["on_progress"]
        for done in range(1, 50):
            report(done, 100, "lines")
            await settle()
        client.reads.release()
        await settle()
        client.reads.release()
        await settle()
    assert client.told == [(1, 100, "lines"), (2, 100, "lines"), (49, 100, "lines")]


async def test_a_client_that_asked_for_no_progress_costs_none() -> None:
    from sessiond.mcp.server import _progress

    context: Any = SimpleNamespace(meta=None, session=None)
    async with _progress(context) as options:
        assert options == {}
