"""A call of a client that is connected already, as a program: the client starts, and calls at a word.

    python -m tests.live_calls CLIENT CALL MARK

Law: the program prints a line once its client is connected, and calls when a line comes. Exit 0: the call was
answered. Exit 1: it was not, and the standard error says what the user of the client is told.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn

import anyio

from tests.kit.lsp_link import language_server
from tests.kit.node import built_client, node_program
from tests.kit.patience import eventually
from tests.processes.harness.daemon import SESSIOND

__all__ = ["CALLS", "available", "main"]

SESSION: Final = "my-session-id"
CLIENTS: Final = Path(__file__).resolve().parents[1] / "clients"
MESSAGE: Final = {"role": "user", "content": "MARK"}
LABEL: Final = {"session_id": SESSION, "entry_id": "entry-1", "label": "MARK"}
METHODS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "list": ("session/list", {}),
    "append": ("session/append", {"session_id": SESSION, "message": MESSAGE}),
    "label": ("session/label", LABEL),
    "fork": ("session/fork", {"session_id": SESSION, "title": "MARK"}),
}
"""Calls of the clients in which a program names methods."""
TOOLS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "read": ("read_session", {"session_id": SESSION}),
    "append": ("append_message", {"session_id": SESSION, "role": "user", "text": "MARK"}),
    "fork": ("fork_session", {"session_id": SESSION, "title": "MARK"}),
}
CALLS: Final = {
    "mcp": tuple(TOOLS),
    "lsp": ("hover", "search", "label"),
    "browse": ("read", "label", "fork"),
    **dict.fromkeys(("typescript", "neovim", "emacs"), tuple(METHODS)),
}
"""The calls of each client."""
NEEDS: Final[dict[str, Callable[[], object]]] = {
    "mcp": lambda: importlib.util.find_spec("mcp"),
    "lsp": lambda: importlib.util.find_spec("pygls"),
    "browse": lambda: importlib.util.find_spec("textual"),
    "typescript": node_program,
    "neovim": lambda: shutil.which("nvim"),
    "emacs": lambda: shutil.which("emacs"),
}
TYPESCRIPT: Final = """
import { createInterface } from "node:readline";
const [library, method, params] = process.argv.slice(1);
const { connect } = await import(library);
const client = await connect();
console.log("ready");
for await (const _ of createInterface({ input: process.stdin })) break;
try {
  const name = method.split("/")[1];
  console.log(JSON.stringify(await client[name](JSON.parse(params))));
} catch (error) {
  console.error(`${error.name}: ${error.message}`);
  process.exitCode = 1;
}
client.disconnect();
process.stdin.destroy();
"""
NEOVIM: Final = """
local client = require("sessiond.client").new({})
local function ask(method, params)
  local outcome
  client:call(method, params, function(failure, result) outcome = { failure, result } end)
  vim.wait(75000, function() return outcome ~= nil end, 5)
  return unpack(outcome, 1, 2)
end
ask("server/ping", {})
io.stdout:write("ready\\n")
io.stdout:flush()
io.read()
local failure = ask(vim.env.LIVE_METHOD, vim.json.decode(vim.env.LIVE_PARAMS))
if failure then
  vim.notify = function(text) io.stderr:write(text .. "\\n") end
  require("sessiond.view").complain(failure)
  vim.cmd("cquit 1")
end
vim.cmd("quitall!")
"""
EMACS: Final = """
(let ((client (sessiond-client-shared)) outcome)
  (sessiond-client-wait client "server/ping" nil 20)
  (princ "ready\\n")
  (read-string "")
  (sessiond-client-request client (getenv "LIVE_METHOD")
                           (sessiond-client--decode (getenv "LIVE_PARAMS"))
                           :then (lambda (_) (setq outcome t))
                           :catch (lambda (error) (setq outcome error)))
  (while (not outcome) (accept-process-output nil 0.05))
  (unless (eq outcome t)
    (message "%s" (plist-get outcome :message))
    (kill-emacs 1)))
"""


def available() -> list[str]:
    """Return the clients that this machine can run."""
    return [client for client, needed in NEEDS.items() if needed()]


def main() -> None:
    """Make the call that the command line names."""
    client, call, mark = sys.argv[1:]
    match client:
        case "mcp":
            _mcp(call, mark)
        case "lsp":
            _lsp(call, mark)
        case "browse":
            anyio.run(_browse, call, mark)
        case _:
            method, params = METHODS[call]
            _become(client, method, json.dumps(params).replace("MARK", mark))


def _become(client: str, method: str, params: str) -> NoReturn:
    """Go on as the program of an editor, or as Node."""
    environment = {**os.environ, "LIVE_METHOD": method, "LIVE_PARAMS": params}
    if client == "typescript":
        node = node_program()
        assert node is not None
        library = built_client(node, os.environ) / "dist" / "index.js"
        words = [str(node), "--input-type=module", "-e", TYPESCRIPT, str(library), method, params]
    elif client == "neovim":
        words = ["nvim", "--headless", "--clean", "--cmd", f"set rtp^={CLIENTS / 'neovim'}"]
        words += ["-c", f"lua {NEOVIM}"]
    else:
        words = ["emacs", "-Q", "--batch", "-L", str(CLIENTS / "emacs"), "-l", "sessiond-client"]
        words += ["--eval", EMACS]
    os.execvpe(words[0], words, environment)


def _wait_for_the_word() -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()


def _refuse(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
    os._exit(1)  # no goodbye to a server whose daemon may hang


def _mcp(call: str, mark: str) -> None:
    """Call a tool of the MCP server."""
    words = [SESSIOND, "mcp", "--write"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdin is not None
        assert run.stdout is not None

        def ask(number: int, method: str, **params: Any) -> Any:
            assert run.stdin is not None
            assert run.stdout is not None
            asked = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            run.stdin.write(json.dumps(asked) + "\n")
            run.stdin.flush()
            while (line := json.loads(run.stdout.readline())).get("id") != number:
                pass
            return line["result"]

        hello = {"protocolVersion": "2025-06-18", "capabilities": {}}
        ask(1, "initialize", **hello, clientInfo={"name": "live", "version": "1"})
        run.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        _wait_for_the_word()
        tool, given = TOOLS[call]
        given = {name: value.replace("MARK", mark) for name, value in given.items()}
        result = ask(2, "tools/call", name=tool, arguments=given)
        if result.get("isError"):
            _refuse(result["content"][0]["text"])
        run.stdin.close()


def _lsp(call: str, mark: str) -> None:
    """Ask the language server."""
    home = Path(os.environ["SESSIOND_HOME"], "profiles/default")
    (path,) = home.glob(f"s*/*{SESSION}.jsonl")
    with language_server([SESSIOND, "lsp"]) as link:
        named = link.open(path)
        link.wait_for_problems()
        _wait_for_the_word()
        if call == "hover":
            place = {**named, "position": {"line": 1, "character": 0}}
            found = link.answer("textDocument/hover", place)
        elif call == "search":
            found = link.answer("workspace/symbol", {"query": "cron"})
        else:
            given = [path.as_uri(), "entry-1", mark]
            params = {"command": "sessiond.label", "arguments": given}
            found = link.answer("workspace/executeCommand", params)
        if "error" in found:
            _refuse(found["error"]["message"])
        if not found["result"]:
            _refuse(f"no answer; try again: {found}")


async def _browse(call: str, mark: str) -> None:
    """Press the keys of the terminal application."""
    from sessiond.browse.app import BrowseApp
    from sessiond.browse.entry import EntryView
    from sessiond.cli.connect.target import find_socket
    from sessiond.cli.options import DaemonPlace
    from tests.interop.browse.application import Application

    class Told(BrowseApp):
        """The application, whose words for an outcome are kept."""

        outcomes: Final = list[tuple[str, bool]]()

        def say(self, text: str, *, is_error: bool = False) -> None:
            super().say(text, is_error=is_error)
            if text and text not in self._losses and not text.startswith("the daemon is back"):
                self.outcomes.append((text, is_error))

    def start() -> None:
        subprocess.run([SESSIOND, "start"], check=True, capture_output=True)

    socket = find_socket(DaemonPlace(None, None, None))
    app = Told(socket, start, str(Path.cwd()), SESSION)
    async with app.run_test() as pilot:
        screen = Application(app, pilot)
        await screen.shows("The cron job.")
        await anyio.to_thread.run_sync(_wait_for_the_word)
        await screen.press({"read": "enter", "label": "L", "fork": "F"}[call])
        if call == "read":
            await eventually(
                lambda: (
                    (isinstance(app.screen, EntryView) and "type:" in screen.text) or app.outcomes
                ),
                lambda: screen.text,
            )
        else:
            await screen.shows("Enter")
            await screen.type(mark)
            await eventually(lambda: app.outcomes, lambda: screen.text)
    for text, is_error in app.outcomes[-1:]:
        if is_error:
            _refuse(text)


if __name__ == "__main__":
    main()
