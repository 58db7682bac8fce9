"""A Node process with the built TypeScript client, which runs what a test tells it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.kit.driver import Driver
from tests.processes.harness.daemon import Daemon

HERE = Path(__file__).parent


@pytest.fixture(params=["node20", "node"])
def any_node(request: pytest.FixtureRequest) -> Path:
    """Return the oldest supported Node, then the newest."""
    program: Path = request.getfixturevalue(request.param)
    return program


@pytest.fixture
def library(typescript_client: Path) -> Path:
    """Return the module that a program imports."""
    return typescript_client / "dist" / "index.js"


@pytest.fixture
def drive(node20: Path, library: Path, server: Daemon) -> Iterator[Callable[..., Driver]]:
    """Return a function that starts a driver on the running daemon."""
    with ExitStack() as ends:

        def start(**options: object) -> Driver:
            told = {"socket": str(server.socket_path), **options}
            command = [str(node20), str(HERE / "driver.mjs"), str(library), json.dumps(told)]
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            ends.enter_context(process)
            ends.callback(process.kill)
            return Driver(process)

        yield start
