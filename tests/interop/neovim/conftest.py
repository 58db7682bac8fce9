"""A Neovim of the machine with the plugin, and a session beside the editor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.interop.neovim.acts import SESSION
from tests.interop.neovim.editor import Editor, editing
from tests.interop.test_stubs import python_client


@pytest.fixture(scope="session")
def neovim(program: Callable[[str], str]) -> str:
    """Return the editor; skip the test without it."""
    return program("nvim")


@pytest.fixture
def editor(neovim: str, home: Path, environment: Mapping[str, str]) -> Iterator[Editor]:
    """Run an editor with the plugin."""
    with editing(neovim, home, environment) as editor:
        yield editor


@pytest.fixture
def session(environment: Mapping[str, str], home: Path) -> str:
    """Return the id of a session with two messages, in the folder of the editor."""
    with python_client(environment) as client:
        client.create(
            str(home / "project"), session_id=SESSION, title="Fix it", persist="immediate"
        )
        client.append(SESSION, message={"role": "user", "content": "Why is it late?"})
        client.append(SESSION, message={"role": "assistant", "content": "The clock."})
    return SESSION
