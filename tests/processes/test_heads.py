"""Agents on heads of their own, agents that take turns on main, and a daemon that is killed."""

from __future__ import annotations

import json
import signal
import sys
import threading
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from sessiond_client import EntryEvent, connect_blocking
from tests.kit.link import Link
from tests.kit.patience import PATIENCE_SECONDS
from tests.kit.sessions import SESSION, entry
from tests.processes.harness.child import Start
from tests.processes.harness.daemon import Daemon

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("head_agent.py")
AGENTS = [f"agent-{number}" for number in range(1, 7)]
WRITERS = ["main-1", "main-2"]
STEPS = {**dict.fromkeys(AGENTS, 40), **dict.fromkeys(WRITERS, 15)}


class Watcher(threading.Thread):
    """A subscription with a filter, up to an entry that ends it."""

    def __init__(self, daemon: Daemon, last: str, **filters: Any) -> None:
        super().__init__(daemon=True)
        self._path = daemon.socket_path
        self._last = last
        self._filters = filters
        self.seen: list[tuple[int, str]] = []
        self.start()

    def run(self) -> None:
        """Note what comes, over lost connections."""
        with (
            connect_blocking(self._path, timeout=60, connect_timeout=30) as client,
            client.subscribe(SESSION, after=0, **self._filters) as events,
        ):
            for event in events:
                if isinstance(event, EntryEvent):
                    self.seen.append((event.seq, event.entry["id"]))
                    if event.entry["id"] == self._last:
                        return

    def all(self) -> list[tuple[int, str]]:
        """Return all events that came."""
        self.join(PATIENCE_SECONDS)
        assert not self.is_alive(), f"the last one never came; {len(self.seen)} did"
        return self.seen


def state(link: Link) -> dict[str, Any]:
    """Return the state that a replay of the file must give again."""
    return {
        "heads": link.ask("session/heads", session_id=SESSION)["heads"],
        "tree": link.ask("session/tree", session_id=SESSION, limit=10_000),
        "entries": link.ask("session/entries", session_id=SESSION, limit=10_000),
        "context": link.ask("session/build_context", session_id=SESSION)["messages"],
    }


def test_every_head_is_where_its_agent_left_it_over_the_death_of_the_daemon(
    daemon: Daemon, started: Start
) -> None:
    with daemon.connect() as link:
        link.create()
        link.ask("session/append", session_id=SESSION, entry=entry("root"))
    by_head = Watcher(daemon, "last-of-agent-1", heads=["agent-1"])
    by_type = Watcher(daemon, "last-leaf", types=["leaf", "custom"])
    everything = Watcher(daemon, "last-leaf")

    command = (sys.executable, PROGRAM, daemon.socket_path, SESSION)
    agents = {name: started(*command, name, steps) for name, steps in STEPS.items()}
    with daemon.connect() as link:
        # Of main's path: whoever has the lease is in the middle of a turn.
        while link.ask("session/get", session_id=SESSION)["session"]["message_count"] < 20:
            pass
    daemon.restart(signal.SIGKILL)
    results: dict[str, Any] = {}
    for name, agent in agents.items():
        told, _ = agent.communicate(timeout=PATIENCE_SECONDS)
        assert agent.returncode == 0
        results[name] = json.loads(told.splitlines()[-1])

    with daemon.connect() as link:
        last = {"type": "message", "id": "last-of-agent-1", "message": {"role": "user"}}
        link.ask("session/append", session_id=SESSION, entry=last, head="agent-1")
        end = {"type": "custom", "id": "last-leaf", "custom_type": "end"}
        link.ask("session/append", session_id=SESSION, entry=end)
        found = state(link)
    log = [(row["seq"], row["entry"]) for row in found["entries"]["entries"]]
    check_heads(found, results)
    check_turns([entry for _, entry in log], results)

    # Each watcher has what its filter lets through, in the order of the log, each once.
    assert everything.all() == [(seq, entry["id"]) for seq, entry in log]
    assert by_head.all() == [(seq, e["id"]) for seq, e in log if e.get("head") == "agent-1"]
    assert by_type.all() == [(seq, e["id"]) for seq, e in log if e["type"] in {"leaf", "custom"}]

    daemon.restart()
    with daemon.connect() as link:
        assert state(link) == found


def check_heads(found: dict[str, Any], results: dict[str, Any]) -> None:
    """Every head is its agent's path, what was dropped is gone, what was refused is nowhere."""
    heads = {head["name"]: head["leaf_id"] for head in found["heads"]}
    assert sorted(heads) == [*AGENTS, "main"]
    parents = {node["id"]: node["parent_id"] for node in found["tree"]["nodes"]}
    assert found["tree"]["next_cursor"] is None
    for name in AGENTS:
        path = results[name]["path"] + (["last-of-agent-1"] if name == "agent-1" else [])
        assert heads[name] == path[-1]
        for child, parent in zip(reversed(path), reversed([None, *path[:-1]]), strict=True):
            assert parents[child] == parent
        assert results[name]["refused"] > 0
    said = [
        row["entry"]["message"]["content"]
        for row in found["entries"]["entries"]
        if "content" in row["entry"].get("message", {})
    ]
    assert sorted(said) == sorted(
        ["root", *(content for result in results.values() for content in result["stored"])]
    )


def check_turns(entries: list[dict[str, Any]], results: dict[str, Any]) -> None:
    """Check that no agent wrote to main in another's turn, and that epochs only grew."""
    epochs = sorted(epoch for name in WRITERS for epoch in results[name]["epochs"])
    assert len(set(epochs)) == len(epochs) >= 8
    said = [
        entry["message"]["content"].split()
        for entry in entries
        if entry["type"] == "message" and "head" not in entry and entry["id"] != "root"
    ]
    turns = [int(epoch) for epoch, _ in groupby(words[2] for words in said)]
    assert turns == sorted(set(turns))
    assert set(turns) <= set(epochs)
