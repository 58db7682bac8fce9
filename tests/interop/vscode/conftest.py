"""The logic of the VS Code extension in a Node process, and a session beside it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.interop.test_stubs import python_client
from tests.interop.vscode.acts import SESSION, Drive, Logic, say

DRIVER: Final = Path(__file__).with_name("driver.mjs")


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
