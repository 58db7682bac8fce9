"""Clients of five makes on one session: each creates, appends, watches and branches, and none misses an entry.

Each client is the command that the conformance kit runs (tests/conformance/README.md).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from tests.interop.emacs.editor import PACKAGE, SCRIPTS
from tests.processes.harness.daemon import SESSIOND, Daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(240)]

HERE: Final = Path(__file__).parent
MAKES: Final = ("neovim", "emacs", "typescript", "vscode-languageserver-protocol", "pygls")
SESSION: Final = "session-of-all"

Commands = Mapping[str, list[str]]


class Client:
    """A client as the kit drives it; `on` names its one connection."""

    def __init__(self, command: list[str], environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._after: dict[str, Any] = {"seq": 0}

    def _step(self, do: str, **more: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, "on": "one", **more}) + "\n")
        self._process.stdin.flush()
        said = json.loads(self._process.stdout.readline())
        assert not {"failed", "unsupported"} & set(said), said
        return json.loads(next(iter(said.values()), "{}"))

    def call(self, method: str, **params: Any) -> Any:
        """Return the result of a request."""
        answer = self._step("call", method=method, params=json.dumps(params))
        assert "result" in answer, answer
        return answer["result"]

    def say(self, text: str, head: str = "main") -> None:
        """Append a message."""
        message = {"role": "user", "content": text}
        self.call("append", session_id=SESSION, head=head, message=message)

    def watch(self) -> None:
        """Subscribe behind the last entry that this client was told of."""
        params = {"session_id": SESSION, "after": self._after}
        assert "error" not in self._step("subscribe", params=json.dumps(params))

    def told(self, count: int) -> list[tuple[int, str]]:
        """Wait for so many entries; return the seq and the text of each."""
        found: list[tuple[int, str]] = []
        while len(found) < count:
            event = self._step("next", session_id=SESSION)
            if event["method"] == "session/event":
                seq, entry = event["params"]["seq"], event["params"]["entry"]
                self._after = {"seq": seq, "entry_id": entry["id"]}
                found.append((seq, entry.get("message", entry).get("content", entry["type"])))
        return found

    def leave(self) -> None:
        """Close the connection; the next step makes another one."""
        self._step("close")

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def commands(
    program: Callable[[str], str], node: Path, node_modules: Path, typescript_client: Path
) -> Commands:
    """Return the command of each make."""
    library = typescript_client / "dist" / "index.js"
    emacs = [program("emacs"), "-Q", "--batch", "-L", str(PACKAGE)]
    program("nvim")
    return {
        "neovim": ["sh", str(HERE / "neovim" / "conformance.sh")],
        "emacs": [*emacs, "-l", str(SCRIPTS / "conformance.el")],
        "typescript": [str(node), str(HERE / "conformance_typescript.mjs"), str(library)],
        "vscode-languageserver-protocol": [
            *(str(node), str(HERE / "node" / "conformance.mjs"), str(node_modules))
        ],
        "pygls": [sys.executable, str(HERE / "conformance_pygls.py"), SESSIOND],
    }


@pytest.fixture
def clients(commands: Commands, server: Daemon) -> Iterator[Mapping[str, Client]]:
    """Run a client of each make on the daemon."""
    server.connect().close()
    socket = str(server.socket_path)
    environment = {**os.environ, "CONFORMANCE_SOCKET": socket, "CONFORMANCE_PAYLOADS": "text"}
    with ExitStack() as ends:
        made = {}
        for make in MAKES:
            made[make] = Client(commands[make], environment)
            ends.callback(made[make].end)
        yield made


@pytest.mark.parametrize("make", MAKES)
def test_each_client_sees_at_once_what_every_other_one_does(
    make: str, clients: Mapping[str, Client], server: Daemon
) -> None:
    first = clients[make]
    first.call("session/create", cwd="/p", session_id=SESSION, persist="immediate")
    for client in clients.values():
        client.watch()
    expected: list[tuple[int, str]] = []
    for number, name in enumerate(MAKES, 1):
        clients[name].say(name)
        expected.append((number, name))
        # The next client appends once all have been told of this entry.
        assert {each: client.told(1) for each, client in clients.items()} == dict.fromkeys(
            clients, expected[-1:]
        )
    (root, *_) = first.call("session/entries", session_id=SESSION)["entries"]
    first.call("session/branch", session_id=SESSION, head="side", entry_id=root["entry"]["id"])
    first.say("beside", head="side")
    for client in clients.values():
        assert [text for _, text in client.told(2)][-1] == "beside"

    server.end(signal.SIGKILL)
    server.start()
    server.connect().close()
    first.leave()
    for text in ("one more", "and one"):
        first.say(text)
    first.watch()
    for client in clients.values():
        if client is not first:
            # A library without a reconnection is left and comes back; what was said meanwhile is replayed.
            client.leave()
            client.watch()
        assert client.told(2) == [(len(MAKES) + 3, "one more"), (len(MAKES) + 4, "and one")]
