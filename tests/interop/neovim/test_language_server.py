"""The recipe of docs/editors.md for the Neovim of this machine: a session's file has its outline."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.interop.neovim.acts import SESSION
from tests.interop.neovim.editor import editing
from tests.interop.test_stubs import python_client

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(120)]

PAGE: Final = Path(__file__).resolve().parents[3] / "docs" / "editors.md"
OUTLINE: Final = """
local asked = { textDocument = vim.lsp.util.make_text_document_params() }
local answers = vim.lsp.buf_request_sync(0, 'textDocument/documentSymbol', asked, 2000)
local names = {}
local function take(symbols)
  for _, one in ipairs(symbols or {}) do
    table.insert(names, one.name)
    take(one.children)
  end
end
for _, answer in pairs(answers or {}) do take(answer.result) end
return table.concat(names, '\\n')
"""


def recipe(neovim: str) -> str:
    """Return the configuration that the page has for an editor."""
    told = subprocess.run([neovim, "--version"], capture_output=True, text=True, check=True).stdout
    version = re.match(r"NVIM v(\d+)\.(\d+)", told)
    assert version is not None, told
    is_new = (int(version[1]), int(version[2])) >= (0, 11)
    begin = "From 0.11 on (tried" if is_new else "From 0.7 to 0.10 (tried"
    return PAGE.read_text("utf-8").split(begin)[1].split("```lua\n")[1].split("```")[0]


def test_the_recipe_of_the_page_shows_the_outline_of_a_session(
    neovim: str, home: Path, environment: Mapping[str, str], session: str
) -> None:
    with python_client(environment) as client:
        path = client.get(SESSION).path
    with editing(neovim, home, environment, recipe(neovim)) as editor:
        for _ in range(2):  # a file that is read again has the same server
            editor.command(f"edit {path}")
            editor.until(lambda: "Why is it late?" in editor.lua(OUTLINE), editor.messages)
        servers = [words for words in editor.children() if "lsp" in words]
        assert len(servers) == 1, editor.children()
