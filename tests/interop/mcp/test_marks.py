"""Marks of changed resources: one that is set while its notification is sent is sent again."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from tests.kit.patience import PATIENCE_SECONDS

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.interop]


async def test_a_change_during_a_notification_is_told_by_another() -> None:
    from sessiond.mcp.watching import Watch

    told: list[str] = []
    client: Any = None
    is_told = anyio.Event()

    async def send(mark: str) -> None:
        told.append(mark)
        if len(told) == 1:
            watch._mark("a")
            watch._mark("a")
            watch._mark("b")
        if len(told) == 3:
            is_told.set()

    with anyio.fail_after(PATIENCE_SECONDS):
        async with anyio.create_task_group() as tasks:
            watch = Watch(client, tasks, send)
            tasks.start_soon(watch.run)
            watch._mark("a")
            await is_told.wait()
            tasks.cancel_scope.cancel()
    assert told == ["a", "a", "b"]
