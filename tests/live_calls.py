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
from tests.kit.node import built_client, built_extension, built_pi_extension, node_program
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
    "vscode": ("list", "read", "append", "label", "fork"),
    "pi": ("attach", "presence"),
    **dict.fromkeys(("typescript", "neovim", "emacs"), tuple(METHODS)),
}
"""The calls of each client."""
NEEDS: Final[dict[str, Callable[[], object]]] = {
    "mcp": lambda: importlib.util.find_spec("mcp"),
    "lsp": lambda: importlib.util.find_spec("pygls"),
    "browse": lambda: importlib.util.find_spec("textual"),
    **dict.fromkeys(("vscode", "pi", "typescript"), node_program),
    "neovim": lambda: shutil.which("nvim"),
    "emacs": lambda: shutil.which("emacs"),
}
WINDOW: Final = Path(__file__).parent / "interop" / "vscode" / "window.mjs"
VSCODE: Final = """
import { createInterface } from "node:readline";
const [library, bundle, call, session, mark] = process.argv.slice(1);
const { address, open } = await import(library);
const window = open(bundle);
const { nodes, view } = window.views["sessiond.sessions"];
const command = (name, ...clicked) => window.commands[`sessiond.sessions.${name}`](...clicked);
command("showAll");
const node = (await nodes()).find(({ info }) => info.id === session);
const [entry] = await nodes(node);
console.log("ready");
for await (const _ of createInterface({ input: process.stdin })) break;
window.typed = mark;
try {
  if (call === "read") {
    const text = String(await window.files.readFile(address(session)));
    if (!text.includes("The cron job.")) window.said.push(text);
  } else if (call === "list") {
    command("reload");
    if ((await nodes()).length === 0) window.said.push(String(view.message));
  } else await command(call, call === "label" ? entry : node);
} catch (error) {
  window.said.push(error.message);
}
for (const text of window.said) console.error(text);
process.exit(window.said.length === 0 ? 0 : 1);
"""
PI: Final = """
import { createInterface } from "node:readline";
const [extension, library, call, file, session_id] = process.argv.slice(1);
const { default: extend } = await import(extension);
const { connect } = await import(library);
const [handlers, commands, told] = [{}, {}, []];
const pi = {
  on: (name, act) => (handlers[name] = act),
  registerCommand: (name, { handler }) => (commands[name] = handler),
  getSessionName: () => undefined,
};
const entries = { getSessionFile: () => file, getEntries: () => [], getEntry: () => ({}) };
const ui = { notify: (text) => told.push(text), setStatus: () => undefined };
const ctx = { cwd: "/", hasUI: true, isIdle: () => true, sessionManager: entries, ui };
const end = Date.now() + 60_000;
async function until(what, isIt) {
  while (!(await isIt().catch(() => false))) {
    const lost = told.find((text) => text.includes("other programs do not see"));
    if (lost !== undefined || Date.now() > end) {
      console.error(lost ?? `not ${what} in time: ${told.at(-1)}`);
      process.exit(1);
    }
    await new Promise((fulfil) => setTimeout(fulfil, 50));
  }
}
async function attached() {
  await commands.sessiond("", ctx);
  return told.pop().includes("present: ");
}
extend(pi);
const begin = () => handlers.session_start({ reason: "startup" }, ctx);
if (call !== "attach") {
  begin();
  await until("attached", attached);
}
console.log("ready");
for await (const _ of createInterface({ input: process.stdin })) break;
if (call === "attach") {
  begin();
  await until("attached", attached);
} else {
  handlers.agent_start({}, ctx);
  let client;
  // Any other client has the daemon started; pi does not start one that a user stopped.
  await until("present", async () => {
    client ??= await connect();
    const { clients } = await client.presence({ session_id });
    return clients.some(({ data, state }) => data?.agent === "pi" && state === "thinking");
  });
}
process.exit(0);
"""
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
        case "vscode" | "pi":
            _become_extension(client, call, mark)
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


def _become_extension(client: str, call: str, mark: str) -> NoReturn:
    """Go on as Node with an extension, and a program around it that is played."""
    node = node_program()
    assert node is not None
    words = [str(node), "--no-warnings", "--experimental-transform-types", "--input-type=module"]
    if client == "vscode":
        bundle = built_extension(node, os.environ) / "dist" / "extension.js"
        words += ["-e", VSCODE, str(WINDOW), str(bundle), call, SESSION, mark]
    else:
        extension = built_pi_extension(node, os.environ) / "src" / "index.ts"
        library = built_client(node, os.environ) / "dist" / "index.js"
        words += ["-e", PI, str(extension), str(library), call, str(_session_file()), SESSION]
    os.execve(words[0], words, os.environ)


def _session_file() -> Path:
    home = Path(os.environ["SESSIOND_HOME"], "profiles/default")
    (path,) = home.glob(f"s*/*{SESSION}.jsonl")
    return path


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
    path = _session_file()
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
