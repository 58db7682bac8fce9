"""Programs that fork, or use many event loops, with a client that was made before.

    python -m tests.interop.forking SOCKET

Ends with status 0 if all that its scenes say held. Their children end as programs do.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from itertools import islice
from typing import Any

from sessiond_client import (
    BlockingClient,
    ClientClosed,
    EntryEvent,
    LeaseLost,
    Presence,
    Signal,
    connect,
    connect_blocking,
)
from sessiond_client.calls import CallState
from tests.kit.patience import PATIENCE_SECONDS, soon

SOCKET = sys.argv[-1]
CHILDREN = 2
EACH = 10


def message(text: str) -> dict[str, Any]:
    """Return a message of a user."""
    return {"role": "user", "content": text}


def child(work: Callable[[], object]) -> int:
    """Fork; let the child do its work and end as a program does; return the pid of the child."""
    if pid := os.fork():
        return pid
    work()
    sys.exit(0)


def ended_well(*pids: int) -> bool:
    """Wait for children; return whether all ended with status 0."""
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids] == [0] * len(pids)


def made(client: BlockingClient) -> str:
    """Return the id of a new session."""
    return client.create("/p", persist="immediate").session.id


def append(client: BlockingClient, session_id: str, who: str) -> None:
    """Append some messages."""
    for number in range(EACH):
        client.append(session_id, message=message(f"{who}-{number}"))


def calls(client: BlockingClient) -> None:
    """Let parent and children append at once, and the parent again when the children have ended."""
    session_id = made(client)
    pids = [child(lambda: append(client, session_id, "child")) for _ in range(CHILDREN)]
    append(client, session_id, "parent")
    assert ended_well(*pids)
    append(client, session_id, "parent")
    assert client.get(session_id).seq == EACH * (CHILDREN + 2)


def waiting(client: BlockingClient) -> None:
    """Fork while calls of other threads wait: each is the parent's, and is answered once there."""
    session_id = made(client)
    with connect_blocking(SOCKET) as other:
        lease = other.acquire(session_id, 600_000)
        got: list[str] = []

        def wait() -> None:
            got.append(client.acquire(session_id, 600_000, wait_ms=600_000, timeout=None).lease_id)

        thread = threading.Thread(target=wait)
        thread.start()
        calls = client._drivers.here().conversation.calls
        soon(lambda: [call for call in calls.values() if call.state is CallState.SENT])
        pid = child(lambda: client.get(session_id))
        assert ended_well(pid)
        other.release(session_id, lease.lease_id)
        thread.join()
        client.release(session_id, *got)


def subscriptions(client: BlockingClient) -> None:
    """Read on in parent and child, each from where the subscription was."""
    session_id = made(client)

    with client.subscribe(session_id, after=0) as events:
        append(client, session_id, "parent")
        seqs = (event.seq for event in events if isinstance(event, EntryEvent))
        assert next(seqs) == 1

        def read() -> None:
            assert list(islice(seqs, EACH - 1)) == [*range(2, EACH + 1)]

        assert ended_well(child(read))
        read()


def leases(client: BlockingClient) -> None:
    """Leave a lease to the parent: the child has none, and does not release it."""
    session_id = made(client)
    with client.lease(session_id, ttl=600) as lease:

        def leave() -> None:
            try:
                _ = lease.id
            except LeaseLost:
                lease.__exit__(None, None, None)
                return
            raise AssertionError("the child has the lease of its parent")

        assert ended_well(child(leave))
        assert not lease.lost.is_set()
        client.append(session_id, message=message("parent"), lease_id=lease.id)


def presence(client: BlockingClient) -> None:
    """Leave presence to the parent: the child's connection says none."""
    session_id = made(client)
    client.presence(session_id, state="here")
    with (
        connect_blocking(SOCKET) as other,
        other.subscribe(session_id, signals=True) as events,
    ):

        def until_signal() -> list[int]:
            """Return how many were present, for each notice before the next signal."""
            seen: list[int] = []
            for event in events:
                if isinstance(event, Signal):
                    break
                if isinstance(event, Presence):
                    seen.append(len(event.clients))
            return seen

        client.signal(session_id, "begin")
        until_signal()
        assert ended_well(child(lambda: client.signal(session_id, "child")))
        assert until_signal() == []


def loops(client: BlockingClient) -> None:
    """Use one client in event loops of many threads at once, and in one event loop behind the other."""
    session_id = made(client)
    shared = connect(SOCKET)
    barrier = threading.Barrier(CHILDREN)

    async def use() -> None:
        await asyncio.to_thread(barrier.wait)
        for number in range(EACH):
            await shared.append(session_id, message=message(f"loop-{number}"))

    threads = [
        threading.Thread(target=lambda: asyncio.run(use()), daemon=True) for _ in range(CHILDREN)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()

    async def again() -> None:
        await shared.append(session_id, message=message("again"))

    asyncio.run(again())
    asyncio.run(again())
    assert client.get(session_id).seq == EACH * CHILDREN + 2
    # A child has event loops of its own.
    assert ended_well(child(lambda: asyncio.run(again())))
    shared.disconnect()
    try:
        asyncio.run(again())
    except ClientClosed:
        return
    raise AssertionError("a client that was disconnected makes calls")


def disconnected(client: BlockingClient) -> None:
    """Disconnect a client whose call waits in an event loop of another thread: the call ends there."""
    session_id = made(client)
    client.acquire(session_id, 600_000)
    shared = connect(SOCKET)
    ended: list[str] = []

    async def wait() -> None:
        try:
            async with shared:
                has_begun.set()
                await shared.acquire(session_id, 600_000, wait_ms=600_000, timeout=None)
        except ClientClosed as error:
            ended.append(type(error).__name__)

    has_begun = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(wait()))
    thread.start()
    assert has_begun.wait(PATIENCE_SECONDS)
    shared.disconnect()
    thread.join(PATIENCE_SECONDS)
    assert ended == ["ClientClosed"]


SCENES = (leases, loops, calls, waiting, subscriptions, presence, disconnected)

if __name__ == "__main__":
    for scene in SCENES:
        with connect_blocking(SOCKET, timeout=PATIENCE_SECONDS, connect_timeout=20.0) as client:
            scene(client)
