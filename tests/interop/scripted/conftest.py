"""The stage of a test, and the connections of both Python clients to the stage."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from anyio import to_thread

from sessiond_client import Client, connect, connect_blocking
from tests.interop.scripted.stage import Connect, InThreads, Stage


@pytest.fixture
def stage(socket_path: Path) -> Iterator[Stage]:
    stage = Stage(socket_path)
    yield stage
    stage.close()


@pytest.fixture(params=["tasks", "threads"])
def connected(request: pytest.FixtureRequest) -> Connect:
    """`connect` of the one client or of the other."""
    if request.param == "tasks":
        return connect

    @asynccontextmanager
    async def in_threads(path: Path, **options: Any) -> AsyncIterator[Client]:
        client = connect_blocking(path, **options)
        await to_thread.run_sync(client.__enter__)
        try:
            yield cast("Client", InThreads(client))
        finally:
            client.disconnect()

    return in_threads
