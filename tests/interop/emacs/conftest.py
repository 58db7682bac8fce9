"""An Emacs of the machine, and an environment of its own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.interop.emacs.editor import Editor, quoted
from tests.interop.emacs.scripted_daemon import ScriptedDaemon
from tests.interop.test_stubs import run
from tests.processes.harness.daemon import SESSIOND


@pytest.fixture
def emacs(program: Callable[[str], str]) -> str:
    return program("emacs")


@pytest.fixture
def place() -> Iterator[Path]:
    """Yield a folder whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="sd-") as folder:
        yield Path(folder)


@pytest.fixture
def environment(home: Path, place: Path) -> Iterator[Mapping[str, str]]:
    """Yield a user's environment with an empty home; stop its daemon at the end."""
    environment = {
        **os.environ,
        "PATH": f"{Path(SESSIOND).parent}{os.pathsep}{os.environ['PATH']}",
        "SESSIOND_HOME": str(home / "data"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "LC_ALL": "C.UTF-8",
        "XDG_RUNTIME_DIR": str(place),
    }
    yield environment
    run([SESSIOND, "stop"], environment)


@pytest.fixture
def editor(emacs: str, environment: Mapping[str, str]) -> Iterator[Editor]:
    """Yield a running Emacs with the package; require at the end that no callback failed."""
    editor = Editor(emacs, environment)
    try:
        editor.wait()
        yield editor
        log = editor.said()
    finally:
        editor.end()
    assert editor.tolerates_failures or "callback failed" not in log


@pytest.fixture
def scripted(editor: Editor, place: Path) -> Iterator[ScriptedDaemon]:
    """Yield a daemon that the test plays, for the editor."""
    editor.eval(f'(setenv "SESSIOND_SOCKET" {quoted(str(place / "scripted"))})')
    editor.eval("(setq sessiond-start-daemon nil)")
    with ScriptedDaemon(place / "scripted") as daemon:
        yield daemon
