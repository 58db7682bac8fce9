"""The logic of the VS Code extension in a Node process, and a session beside it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.interop.test_stubs import python_client, run
from tests.interop.vscode.acts import SESSION, Drive, Logic, say
from tests.processes.harness.daemon import SESSIOND

DRIVER: Final = Path(__file__).with_name("driver.mjs")


@pytest.fixture
def environment(home: Path) -> Iterator[Mapping[str, str]]:
    """Yield a user's environment with an empty home; stop its daemon at the end."""
    environment = {
        **os.environ,
        "PATH": f"{Path(SESSIOND).parent}{os.pathsep}{os.environ['PATH']}",
        "SESSIOND_HOME": str(home / "data"),
    }
    yield environment
    run([SESSIOND, "stop"], environment)


@pytest.fixture
def drive(node: Path, vscode_extension: Path, environment: Mapping[str, str]) -> Iterator[Drive]:
    """Return a function that starts the logic of a window."""
    with ExitStack() as ends:

        def start(**options: object) -> Logic:
            core = vscode_extension / "dist" / "core.mjs"
            process = subprocess.Popen(
                [str(node), str(DRIVER), str(core), json.dumps(options)],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            ends.enter_context(process)
            ends.callback(process.kill)
            return Logic(process)

        yield start


@pytest.fixture
def session(environment: Mapping[str, str], home: Path) -> str:
    """Return the id of a session with two messages."""
    with python_client(environment) as client:
        client.create(str(home), session_id=SESSION, title="Fix it", persist="immediate")
    say(environment, "Why is it late?", "The clock.")
    return SESSION
