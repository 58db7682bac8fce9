"""The peer of row 3: the OpenAI Agents SDK's SQLiteSession in process, run as a process.

Law: messages are decoded before the clock starts. One call of `add_items` stores one message, which
is one transaction of SQLite and one sync of its write-ahead log.

    > {"messages":"…/messages.jsonl","to":"…/session.db","at_once":64}
    < {"seconds":0.91,"count":900}
"""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from sessiond_client import connect

__all__ = ["Done", "Session", "Task", "add", "main"]


_sessions = count(1)


class Task(Struct):
    """Store every message of a file, with `at_once` open calls at any time.

    In a new database; or, if `to` is a socket, in a new session of the daemon that listens there.
    """

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
    async with _session(task, sdk) as session:
        start = time.perf_counter()
        await add(session, messages, task.at_once)
        return Done(time.perf_counter() - start, len(messages))


@asynccontextmanager
async def _session(task: Task, sdk: Any) -> AsyncIterator[Session]:
    if Path(task.to).is_socket():
        ours = importlib.import_module("sessiond_client.openai_agents")
        async with connect(task.to) as client:
            session = ours.SessiondSession(f"bench-{next(_sessions)}-{os.getpid()}", client=client)
            await session.get_items(1)  # made before the clock starts, as the database is
            yield session
        return
    with closing(sdk.SQLiteSession("bench", task.to)) as database:
        yield database


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
