"""An example agent as a process on a real daemon, with a model that does as its prompts say."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from sessiond_client import BlockingClient, Signal, connect_blocking
from tests.processes.harness.daemon import Daemon

SESSION = "an-agents-session"
EXAMPLES = Path(__file__).resolve().parents[3] / "clients"


@pytest.fixture(params=["python", "typescript"])
def agent_command(request: pytest.FixtureRequest) -> list[str]:
    """Return the command of an example agent."""
    if request.param == "python":
        return [sys.executable, str(EXAMPLES / "python" / "examples" / "agent.py")]
    built: Path = request.getfixturevalue("typescript_client")
    return [str(request.getfixturevalue("node")), str(built / "examples" / "agent.ts")]


class Talk:
    """A session with agents at work, and the one who prompts them."""

    def __init__(
        self, client: BlockingClient, start: Callable[..., subprocess.Popen[bytes]]
    ) -> None:
        self.client = client
        self.start = start
        self._prompts = 0
        self._events = client.subscribe(SESSION, signals=True, bodies=False).__enter__()

    def prompt(self, text: str, kind: str = "follow_up") -> None:
        """Put a prompt into the queue."""
        self._prompts += 1
        self.client.signal(SESSION, kind, data=text, queue=True, queue_id=f"prompt-{self._prompts}")

    def deltas(self, count: int) -> None:
        """Wait for so many pieces of an answer."""
        while count:
            event = next(self._events)
            count -= isinstance(event, Signal) and event.kind == "delta"

    def rest(self, name: str = "agent") -> list[dict[str, Any]]:
        """Wait until the agent knows everything and has nothing to do; return all messages."""
        while not self._rests(name):
            next(self._events)
        entries = self.client.path(SESSION, limit=1000).entries
        return [one.entry["message"] for one in entries if one.entry["type"] == "message"]

    def _rests(self, name: str) -> bool:
        # The queue is asked first: a prompt that is taken between two answers would be in neither.
        if self.client.queue(SESSION):
            return False
        leaf_id = self.client.get(SESSION).leaf_id
        return any(
            one.client_id == name and one.state == "idle" and one.data["leaf_id"] == leaf_id
            for one in self.client.presence(SESSION)
        )


@pytest.fixture
def talk(server: Daemon, model: str, agent_command: list[str], tmp_path: Path) -> Iterator[Talk]:
    """Create a session; return it with a function that starts an agent of a name on the session."""
    environment = {**server.environment, "OPENAI_BASE_URL": model, "OPENAI_API_KEY": "none"}
    server.connect().close()

    with ExitStack() as ends:

        def start(name: str = "agent", *options: str) -> subprocess.Popen[bytes]:
            place = ["--socket", str(server.socket_path), "--name", name]
            process = subprocess.Popen(
                [*agent_command, SESSION, *place, "--tool-seconds", "1", *options], env=environment
            )
            ends.callback(process.wait)
            ends.callback(process.kill)
            return process

        client = ends.enter_context(connect_blocking(server.socket_path))
        client.create(str(tmp_path), session_id=SESSION, persist="immediate")
        yield Talk(client, start)
