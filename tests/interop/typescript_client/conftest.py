"""A Node process with the built TypeScript client, which runs what a test tells it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.processes.harness.daemon import Daemon

__all__ = ["Driver", "JsError"]

HERE = Path(__file__).parent


class JsError(Exception):
    """An error that the code in Node threw."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(f"{error['name']}: {error['message']}")
        self.name = error["name"]
        self.message = error["message"]
        self.kind = error.get("kind")
        self.outcome_unknown = error.get("outcomeUnknown")


class Driver:
    """One Node process with one client."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __call__(self, code: str, **values: object) -> Any:
        """Run code that sees the values by their names; return what the code returns."""
        self.begin(code, **values)
        return self.end()

    def begin(self, code: str, **values: object) -> None:
        """Send code, and do not wait for its end."""
        assert self._process.stdin is not None
        given = "".join(f"const {name} = {json.dumps(value)};" for name, value in values.items())
        self._process.stdin.write(json.dumps(given + code) + "\n")
        self._process.stdin.flush()

    def end(self) -> Any:
        """Return what the code returned. Raises JsError."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the program ended"
        said = json.loads(line)
        if "error" in said:
            raise JsError(said["error"])
        return said["value"]


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
