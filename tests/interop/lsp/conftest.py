"""The loop and the daemon of the language server's tests."""

from __future__ import annotations

import pytest

from tests.processes.harness.daemon import Daemon


@pytest.fixture
def anyio_backend() -> str:
    """pygls knows asyncio only."""
    return "asyncio"


@pytest.fixture
def server(server: Daemon) -> Daemon:
    """Return a daemon that listens already; `sessiond lsp` would start another one otherwise."""
    server.connect().close()
    return server
