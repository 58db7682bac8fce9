"""The real pi in RPC mode with the extension, on a real daemon, with a model that does as its prompts say."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn

import pytest

from sessiond_client import BlockingClient, EntryEvent, Signal, connect_blocking
from tests.kit.node import built_pi_extension
from tests.kit.pi import node_and_pi
from tests.processes.harness.daemon import SESSIOND, Daemon

WAIT_SECONDS = 60
PROVIDER = {
    "api": "openai-completions",
    "apiKey": "none",
    "models": [{"id": "fake", "contextWindow": 100_000, "maxTokens": 4096}],
}


class Pi:
    """A pi process that is driven line by line."""

    def __init__(self, command: list[str], folder: Path, environment: Mapping[str, str]) -> None:
        self._errors = (folder / "pi.log").open("ab")
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        self.log = folder / "pi.log"
        self.told: list[dict[str, Any]] = []

    def send(self, type: str, **members: Any) -> None:
        """Send a command."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"type": type, **members}).encode() + b"\n")
        self.process.stdin.flush()

    def until(self, done: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Read what pi tells until a message fulfils a condition; return the message."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            told: dict[str, Any] = json.loads(line)
            self.told.append(told)
            if done(told):
                return told
        raise AssertionError(f"pi ended: {self.log.read_text()[-2000:]} {self.told[-5:]}")

    def ask(self, type: str, **members: Any) -> dict[str, Any]:
        """Send a command; return its data."""
        self.send(type, **members)
        answer = self.until(lambda told: told["type"] == "response" and told["command"] == type)
        assert answer["success"], answer
        data = answer.get("data")
        return data if isinstance(data, dict) else {}

    def prompt(self, text: str) -> None:
        """Prompt pi; return when pi has done the turn."""
        self.ask("prompt", message=text)
        self.until(lambda told: told["type"] == "agent_end")

    def file(self) -> Path:
        """Return the file of the session."""
        return Path(self.ask("get_state")["sessionFile"])

    def notices(self) -> list[str]:
        """Return what the extension said to the user so far."""
        return [
            told["message"]
            for told in self.told
            if told["type"] == "extension_ui_request" and told["method"] == "notify"
        ]

    def end(self) -> int:
        """Close pi's input and wait for pi's end; return the exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(WAIT_SECONDS)

    def discard(self) -> None:
        """End pi if pi still runs."""
        self.process.kill()
        self.process.wait()
        self._errors.close()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


class Watcher:
    """A client beside pi: an editor, for instance."""

    def __init__(self, client: BlockingClient, path: Path) -> None:
        self.client = client
        self.session = client.open(path=str(path)).id
        self._events = client.subscribe(self.session, after=0, signals=True).__enter__()
        self.entries: list[dict[str, Any]] = []

    def until(self, done: Callable[[Any], bool]) -> Any:
        """Read events until one fulfils a condition; return the event."""
        while not done(event := self._next()):
            pass
        return event

    def present(self, done: Callable[[list[Any]], bool]) -> list[Any]:
        """Wait until the list of pi's processes that are present fulfils a condition; return the list."""
        while not done(found := self._pis()):
            self._next()
        return found

    def _next(self) -> Any:
        event = next(self._events)
        if isinstance(event, EntryEvent):
            self.entries.append(dict(event.entry))
        return event

    def _pis(self) -> list[Any]:
        clients = self.client.presence(self.session)
        return [one for one in clients if (one.client_id or "").startswith("pi-")]

    def ask(self, kind: str, **data: Any) -> Any:
        """Send a signal; return pi's answer."""
        self.client.signal(self.session, kind, data={"id": "r1", **data})
        answer = self.until(lambda event: _is_answer(event))
        assert (answer.data["kind"], answer.data["id"]) == (kind, "r1")
        return answer

    def until_entry(self, done: Callable[[dict[str, Any]], bool]) -> None:
        """Wait until an entry has come that fulfils a condition."""
        while not any(done(entry) for entry in self.entries):
            self._next()


def _is_answer(event: Any) -> bool:
    return isinstance(event, Signal) and event.kind in ("taken", "refused")


@pytest.fixture(scope="session")
def extension(node: Path, machine_environment: Mapping[str, str]) -> Path:
    """Return the extension as a user has the extension after an installation."""
    return built_pi_extension(node, machine_environment)


@pytest.fixture(scope="session")
def pi_command(absent: Callable[[str], NoReturn], extension: Path) -> list[str]:
    """Return the command of pi with the extension."""
    node, manager = node_and_pi(absent)
    command = [str(node), str(manager.parents[1] / "cli.js"), "--mode", "rpc"]
    command += ["--model", "fake/fake", "--no-skills", "--no-context-files"]
    return [*command, "-e", str(extension)]


@pytest.fixture
def start_pi(
    pi_command: list[str], model: str, home: Path, socket_path: Path, tmp_path: Path
) -> Iterator[Callable[..., Pi]]:
    """Return a function that starts pi with options."""
    agent = tmp_path / "agent"
    agent.mkdir()
    models = {"providers": {"fake": {**PROVIDER, "baseUrl": model}}}
    (agent / "models.json").write_text(json.dumps(models), "utf-8")
    environment = {
        "HOME": str(home),
        "PATH": f"{Path(pi_command[0]).parent}{os.pathsep}{os.defpath}",
        "PI_CODING_AGENT_DIR": str(agent),
        "PI_OFFLINE": "1",
        "PI_TELEMETRY": "0",
        "SESSIOND_SOCKET": str(socket_path),
        "SESSIOND_HOME": str(home / "data"),
        "SESSIOND_COMMAND": SESSIOND,
    }
    with ExitStack() as ends:

        def start(*options: str, variables: Mapping[str, str] | None = None) -> Pi:
            pi = Pi([*pi_command, *options], tmp_path, {**environment, **(variables or {})})
            ends.callback(pi.discard)
            return pi

        yield start


@pytest.fixture
def pi(server: Daemon, start_pi: Callable[..., Pi]) -> Pi:
    """Run pi on a session with one turn."""
    server.connect().close()
    pi = start_pi()
    pi.prompt("Hello")
    return pi


@pytest.fixture
def watcher(server: Daemon, pi: Pi) -> Iterator[Watcher]:
    """Return a client that watches pi's session."""
    with connect_blocking(server.socket_path) as client:
        yield Watcher(client, pi.file())
