"""Acts of a test beside the editor, and texts of the editor's buffers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from tests.interop.neovim.editor import Editor
from tests.interop.test_stubs import python_client

SESSION: Final = "session-of-neovim"


def say(environment: Mapping[str, str], *texts: str) -> None:
    with python_client(environment) as client:
        for text in texts:
            client.append(SESSION, message={"role": "user", "content": text})


def stored(environment: Mapping[str, str], session_id: str = SESSION) -> list[str]:
    """Return the content of every stored message, in the order of `seq`."""
    with python_client(environment) as client:
        rows = client.entries(session_id).entries
    return [row.entry["message"]["content"] for row in rows if row.entry["type"] == "message"]


def asked(editor: Editor, function: str, *arguments: Any) -> Any:
    """Call a function of the plugin; return its error and its result, each as JSON says."""
    editor.lua(
        """
        local name, arguments = ...
        _G.outcome = nil
        table.insert(arguments, function(failure, result)
          _G.outcome = require("sessiond.json").encode({ failure or vim.NIL, result or vim.NIL })
        end)
        require("sessiond")[name](unpack(arguments))
        """,
        function,
        list(arguments),
    )
    failure, result = json.loads(editor.until(lambda: editor.lua("return _G.outcome")))
    return failure if failure is not None else result


def until_shown_in_number(editor: Editor, number: int) -> None:
    """Wait until a tail shows so many texts, or more."""
    editor.until(
        lambda: len(shown(editor)) >= number,
        lambda: f"{shown(editor)} {editor.messages()}",
    )


def shown(editor: Editor) -> list[str]:
    """Return the texts of a tail, without headings."""
    return [line for line in editor.lines() if line and not line.startswith("── ")]
