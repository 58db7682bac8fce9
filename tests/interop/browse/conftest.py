"""Textual, which every test here needs, and sessions to look at."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NoReturn

import pytest

from sessiond_client import Client, connect
from tests.processes.harness.daemon import Daemon


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Return the one backend that Textual runs on."""
    return "asyncio"


@pytest.fixture(autouse=True)
def _textual(absent: Callable[[str], NoReturn]) -> None:
    try:
        # Imported before a test watches for calls that block.
        import sessiond.browse.app  # noqa: F401
    except ImportError:
        absent("textual is not installed (dependency group extras)")


@pytest.fixture
def server(server: Daemon) -> Daemon:
    """Return the daemon, which listens."""
    server.connect().close()
    return server


@pytest.fixture
async def client(server: Daemon) -> AsyncIterator[Client]:
    """Yield another client of the daemon, which outlives the daemon's end."""
    async with connect(server.socket_path, client_id="other") as client:
        yield client


@pytest.fixture
def project(home: Path) -> Path:
    """Return the folder that the application is started in."""
    path = home / "project"
    path.mkdir()
    return path
