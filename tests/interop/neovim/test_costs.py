"""Costs of the plugin: connections, processes, and messages while nothing happens."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.interop.neovim.acts import say
from tests.interop.neovim.editor import editing
from tests.interop.test_stubs import said
from tests.kit.line_proxy import line_proxy
from tests.processes.harness.daemon import SESSIOND

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(300)]


def test_one_connection_no_process_and_no_poll(
    neovim: str, home: Path, session: str, environment: Mapping[str, str]
) -> None:
    """Require that an editor with every view open waits for the daemon's word alone: no timer runs."""
    daemon = said([SESSIOND, "start", "--json"], environment)["socket"]
    lines: list[bytes] = []

    def counted(line: bytes) -> list[bytes]:
        lines.append(line)
        return [line]

    place = home / "proxy"
    with (
        line_proxy(place, Path(daemon), requests=counted, answers=counted),
        editing(neovim, home, {**environment, "SESSIOND_SOCKET": str(place)}) as editor,
    ):
        for view in ("list", "tail", "tree"):
            editor.command(f"Sessiond {view}" + (f" {session}" if view != "list" else ""))
        editor.lua("vim.o.statusline = [[%{v:lua.require'sessiond'.statusline()}]]")
        editor.until_shown("The clock.", "sessiond://tail/")
        editor.until_shown("The clock.", "sessiond://tree/")
        editor.until(
            lambda: "tokens" in editor.lua("return require('sessiond').statusline()"),
            editor.messages,
        )
        say(environment, "Quiet now.")
        editor.until_shown("Quiet now.", "sessiond://tree/")
        editor.until_no_timer()
        assert sum(b'"method":"initialize"' in line for line in lines) == 1
        assert editor.lua("return #Timers") > 0
        assert editor.children() == []
