"""An agent in a session shared with other agents: `head_agent.py SOCKET SESSION NAME STEPS`.

An agent named `main-…` takes turns on main under a lease. An agent of any other name works on a
head of that name. The last line of its output is its view of the session, as JSON.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

from sessiond_client import (
    BlockingClient,
    ConnectionLost,
    LeaseLost,
    RpcError,
    connect_blocking,
)

TURNS = 4


def require(holds: bool, error: Exception) -> None:
    """Raise `error` unless it holds that the call failed in the expected way."""
    if not holds:
        raise error


class Agent:
    """Its head, and where it believes that head to stand."""

    def __init__(self, client: BlockingClient, session_id: str, name: str) -> None:
        self.client = client
        self.session_id = session_id
        self.name = name
        self.random = random.Random(name)
        self.path = ["root"]
        self.stored: list[str] = []
        self.refused = 0

    @property
    def leaf(self) -> str:
        return self.path[-1]

    def work(self, steps: int) -> dict[str, Any]:
        self.say(parent_id=self.leaf)
        for step in range(steps):
            self.say(expected={"leaf_id": self.leaf})
            if step % 5 == 4:
                self.go_back()
            if step % 7 == 3:
                self.try_aside()
            if step % 6 == 2:
                self.be_late()
        return {"path": self.path, "stored": self.stored, "refused": self.refused}

    def say(self, **options: Any) -> None:
        content = f"{self.name} {len(self.stored)}"
        done = self.client.append(
            self.session_id, message={"role": "user", "content": content}, head=self.name, **options
        )
        self.path.append(done.entries[0].id)
        self.stored.append(content)

    def go_back(self) -> None:
        at = self.random.randrange(1, len(self.path))
        self.move(self.path[at], head=self.name, expected={"leaf_id": self.leaf})
        del self.path[at + 1 :]

    def try_aside(self) -> None:
        """Make a head for one append, then drop the head."""
        side = f"{self.name}-side"
        content = f"{side} {len(self.stored)}"
        self.client.append(
            self.session_id,
            message={"role": "user", "content": content},
            head=side,
            parent_id=self.leaf,
        )
        self.stored.append(content)
        self.move(None, head=side, drop=True)

    def move(self, entry_id: str | None, **options: Any) -> None:
        """Branch; if the outcome is unknown, look at the head and repeat the branch if needed."""
        while True:
            try:
                self.client.branch(self.session_id, entry_id, **options)
            except ConnectionLost as lost:
                require(lost.outcome_unknown, lost)
                heads = {head.name: head for head in self.client.heads(self.session_id)}
                head = heads.get(options["head"])
                if (head is None) if options.get("drop") else (head and head.leaf_id == entry_id):
                    return
            else:
                return

    def be_late(self) -> None:
        """Require that an append to an older leaf is refused and changes nothing."""
        stale = self.path[-2]
        try:
            self.client.append(
                self.session_id,
                message={"role": "user", "content": "never stored"},
                head=self.name,
                expected={"leaf_id": stale},
            )
        except RpcError as error:
            require(error.kind == "precondition_failed", error)
            require(error.data["actual"]["leaf_id"] == self.leaf, error)
            require(self.leaf in error.data["missed"], error)
            self.refused += 1


def take_turns(client: BlockingClient, session_id: str, name: str, steps: int) -> dict[str, Any]:
    """Several turns on main, each under a lease; a turn that was cut off is taken again."""
    epochs: list[int] = []
    stored: list[str] = []
    turns = lost = 0
    while turns < TURNS:
        try:
            with client.lease(session_id, ttl=20, wait_ms=60_000) as lease:
                epochs.append(lease.epoch)
                for _ in range(steps):
                    content = f"{name} {len(stored)} {lease.epoch}"
                    client.append(
                        session_id, message={"role": "user", "content": content}, lease_id=lease.id
                    )
                    stored.append(content)
                turns += 1
        except LeaseLost:
            lost += 1
        except RpcError as error:
            require(error.kind in {"lease_lost", "lease_held"}, error)
            lost += 1
    return {"epochs": epochs, "stored": stored, "lost": lost}


if __name__ == "__main__":
    socket_path, session, who, steps = sys.argv[1:]
    options: dict[str, Any] = {"timeout": 60.0, "connect_timeout": 30.0}
    with connect_blocking(socket_path, client_id=who, **options) as connection:
        if who.startswith("main-"):
            told = take_turns(connection, session, who, int(steps))
        else:
            told = Agent(connection, session, who).work(int(steps))
    print(json.dumps(told))  # noqa: T201 - what its starter waits for
