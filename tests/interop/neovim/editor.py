"""A headless Neovim as a user has it: the plugin is an optional package, an `init.lua` adds it.

Law: all that a test does goes over the editor's own socket (MessagePack-RPC): Lua that is carried
out, and keys that are typed. Waits end by a condition or by a limit.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.kit.patience import PATIENCE_SECONDS, soon
from tests.kit.processes import children

__all__ = ["Editor", "editing"]

PLUGIN: Final = Path(__file__).resolve().parents[3] / "clients" / "neovim"
INIT: Final = """
local make = vim.loop.new_timer
Timers = {}
vim.loop.new_timer = function()
  table.insert(Timers, make())
  return Timers[#Timers]
end
vim.cmd('packadd sessiond')
"""
"""A user's `init.lua` that also keeps the timers, those of `vim.defer_fn` among them."""
RUNNING: Final = """
local count = 0
for _, timer in ipairs(Timers) do
  if not timer:is_closing() and timer:is_active() then
    count = count + 1
  end
end
return count
"""


class Editor:
    """A running editor."""

    def __init__(self, process: subprocess.Popen[bytes], connection: socket.socket) -> None:
        self.pid = process.pid
        self._process = process
        self._connection = connection
        self._last_id = 0

    def _ask(self, method: str, *arguments: Any) -> Any:
        self._last_id += 1
        self._connection.sendall(msgspec.msgpack.encode([0, self._last_id, method, arguments]))
        received = b""
        while True:
            chunk = self._connection.recv(1 << 20)
            assert chunk, "the editor has ended"
            received += chunk
            try:
                kind, answered, error, result = msgspec.msgpack.decode(received)
            except msgspec.DecodeError:
                continue  # a part of the answer
            assert (kind, answered) == (1, self._last_id)
            assert error is None, error
            return result

    def lua(self, code: str, *arguments: Any) -> Any:
        """Carry out Lua; return what the code returns."""
        return self._ask("nvim_exec_lua", code, arguments)

    def command(self, command: str) -> None:
        """Carry out an Ex command."""
        self._ask("nvim_command", command)

    def type(self, keys: str) -> None:
        """Type keys, as a person does."""
        self._ask("nvim_input", keys)

    def lines(self, name: str = "") -> list[str]:
        """Return the lines of the buffer of a name, or of the current buffer; none without it."""
        found: list[str] = self.lua(
            """
            local name = ...
            local buffer = name == "" and 0 or vim.fn.bufnr(name)
            return buffer == -1 and {} or vim.api.nvim_buf_get_lines(buffer, 0, -1, false)
            """,
            name,
        )
        return found

    def cursor(self) -> int:
        """Return the line of the cursor."""
        line: int = self.lua("return vim.fn.line('.')")
        return line

    def until(self, is_it: Callable[[], Any], what: Callable[[], Any] = str) -> Any:
        """Wait for a condition; return its value."""
        return soon(is_it, what)

    def until_shown(self, text: str, name: str = "") -> None:
        """Wait until a line of a buffer has a text."""
        self.until(
            lambda: any(text in line for line in self.lines(name)),
            lambda: f"no {text!r} in {self.lines(name)}; {self.messages()}",
        )

    def until_no_timer(self) -> None:
        """Wait until the plugin waits for no time: what it says then, it says to an answer or an event."""
        self.until(lambda: self.lua(RUNNING) == 0, lambda: f"{self.lua(RUNNING)} timers run")

    def messages(self) -> str:
        """Return what the editor told its user."""
        told: str = self.lua("return vim.fn.execute('messages')")
        return told

    def busy_until_told(self) -> Callable[[], None]:
        """Stop the process; return a function that lets the process go on."""
        self._process.send_signal(signal.SIGSTOP)
        return lambda: self._process.send_signal(signal.SIGCONT)

    def require_end(self) -> None:
        """Wait until the editor has ended by itself, without an error."""
        assert self._process.wait(PATIENCE_SECONDS) == 0

    def children(self) -> list[str]:
        """Return the commands of the child processes."""
        return children(self.pid)


@contextmanager
def editing(
    program: str,
    home: Path,
    environment: Mapping[str, str],
    init: str = INIT,
) -> Iterator[Editor]:
    """Run an editor with a configuration of its own; end it by its handle."""
    data, configuration = home / "nvim-data", home / "nvim-config"
    package = data / "nvim" / "site" / "pack" / "x" / "opt" / "sessiond"
    if not package.exists():
        shutil.copytree(PLUGIN, package)
        (configuration / "nvim").mkdir(parents=True)
    (configuration / "nvim" / "init.lua").write_text(init, "utf-8")
    project = home / "project"
    project.mkdir(exist_ok=True)
    place = home / f"nvim-{os.urandom(4).hex()}"
    process = subprocess.Popen(
        [program, "--headless", "-n", "-i", "NONE", "--listen", str(place)],
        env={**environment, "XDG_DATA_HOME": str(data), "XDG_CONFIG_HOME": str(configuration)},
        cwd=project,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(PATIENCE_SECONDS)

            def listens() -> bool:
                assert process.poll() is None, "the editor did not start"
                return connection.connect_ex(str(place)) == 0

            soon(listens)
            yield Editor(process, connection)
    finally:
        process.kill()
        process.wait()
