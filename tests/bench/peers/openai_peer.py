"""The peer of row 3: the OpenAI Agents SDK's SQLiteSession in process, run as a process.

Law: messages are decoded before the clock starts. One call of `add_items` stores one message, which
is one transaction of SQLite and one sync of its write-ahead log.

    > {"messages":"…/messages.jsonl","to":"…/session.db","at_once":64}
    < {"seconds":0.91,"count":900}
"""

from __future__ import annotations

import asyncio
import importlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import Struct

__all__ = ["Done", "Session", "Task", "add", "main"]


class Task(Struct):
    """Store every message of a file in a new database, with `at_once` open calls at any time."""

    messages: str
    to: str
    at_once: int


class Done(Struct):
    """The time that a task took."""

    seconds: float
    count: int


class Session(Protocol):
    """The part of a session of the SDK that is measured."""

    async def add_items(self, items: list[Any]) -> None:
        """Store items durably."""
        ...

    def close(self) -> None:
        """Close the database."""
        ...


async def add(session: Session, messages: Sequence[Any], at_once: int) -> None:
    """Add each message by a call of its own, and wait for all."""
    waiting = iter(messages)

    async def one_by_one() -> None:
        for message in waiting:
            await session.add_items([message])

    await asyncio.gather(*(one_by_one() for _ in range(at_once)))


async def _done(task: Task, sdk: Any) -> Done:
    lines = Path(task.messages).read_bytes().splitlines()
    messages = [msgspec.json.decode(line) for line in lines]
    session: Session = sdk.SQLiteSession("bench", task.to)
    try:
        start = time.perf_counter()
        await add(session, messages, task.at_once)
        return Done(time.perf_counter() - start, len(messages))
    finally:
        session.close()


async def _serve() -> None:
    """Do one task per line of standard input, on one loop."""
    # By name, so that type checks pass where the package is not installed.
    sdk = importlib.import_module("agents")
    for line in sys.stdin.buffer:
        done = await _done(msgspec.json.decode(line, type=Task), sdk)
        sys.stdout.buffer.write(msgspec.json.encode(done) + b"\n")
        sys.stdout.buffer.flush()


def main() -> None:
    """`python -m tests.bench.peers.openai_peer`."""
    asyncio.run(_serve())


if __name__ == "__main__":
    main()
