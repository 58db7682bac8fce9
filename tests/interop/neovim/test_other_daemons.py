"""The plugin beside a daemon of another version: one message, however often the plugin connects."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from sessiond import __version__
from tests.interop.neovim.acts import asked
from tests.interop.neovim.editor import editing
from tests.versions.talk import another_daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(240)]


@pytest.mark.parametrize("another", [("older", "0.1.0"), ("newer", "0.10.0")], ids=str)
def test_the_plugin_tells_a_daemon_of_another_version_once(
    another: tuple[str, str],
    neovim: str,
    home: Path,
    environment: Mapping[str, str],
    socket_path: Path,
) -> None:
    age, version = another
    named = {**environment, "SESSIOND_SOCKET": str(socket_path)}
    with another_daemon(socket_path, version), editing(neovim, home, named) as editor:
        for _ in range(2):
            found = asked(editor, "list", {})
            assert len(found.get("sessions", [])) == 1, found
            editor.lua("require('sessiond').client().wire:_lose('for a test')")
        line = f"sessiond: the running daemon is {age} ({version}) than this plugin ({__version__})"
        told = editor.messages()
        assert told.count(f"{line}: `sessiond restart` replaces it") == 1, told
        assert told.count("the running daemon") == 1
