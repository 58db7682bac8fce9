"""Subscriptions of both Python clients: resumed, slow, refused and closed."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio import to_thread

from sessiond_client import Cursor, EntryEvent, Replaced, RpcError, Synced
from tests.interop.scripted.stage import Connect, Peer, Stage, quiet, seq_of

pytestmark = pytest.mark.both_loops


async def test_a_subscription_resumes_where_it_was(stage: Stage, connected: Connect) -> None:
    def first(peer: Peer) -> None:
        request = peer.read("session/subscribe")
        asked = {"session_id": "s", "after": {"seq": 0}, "bodies": True, "signals": False}
        assert request["params"] == asked
        peer.event(1)
        peer.answer(request, {"epoch": "A", "seq": 2, "leaf_id": "e2", "heads": []})
        peer.event(2)
        peer.connection.sendall(b'{"method":"session/event","par')

    def second(peer: Peer) -> None:
        request = peer.read("session/subscribe")
        assert request["params"]["after"] == {"seq": 2, "entry_id": "e2"}
        peer.answer(request, {"epoch": "A", "seq": 4, "leaf_id": "e4", "heads": []})
        for seq in (2, 3, 4):
            peer.event(seq)
        peer.notify("synced", seq=4)
        peer.notify("replaced", epoch="B", reason="truncated")
        peer.event(1)
        peer.ends()

    stage.play(quiet, first, second)
    seen: list[Any] = []
    async with (
        connected(stage.path) as client,
        client.subscribe("s", after=0, bodies=True) as events,
    ):
        async for event in events:
            seen.append(event.seq if isinstance(event, EntryEvent) else event)
            if len(seen) == 7:
                break
        assert events.position == Cursor(1, "e1", "A")
    assert seen == [1, 2, 3, 4, Synced("s", 4), Replaced("s", "B", "truncated"), 1]


async def test_a_slow_consumer_holds_little_and_delays_no_answer(
    stage: Stage, connected: Connect
) -> None:
    count = 100
    sent: list[int] = []
    stuck = threading.Event()

    def calls(peer: Peer) -> None:
        peer.answer(peer.read("initialize"))
        for _ in range(3):
            peer.answer(peer.read("server/ping"), "pong")
        peer.ends()

    def streams(peer: Peer) -> None:
        peer.answer(peer.read("session/subscribe"), {"epoch": "A", "seq": 0})
        for seq in range(1, count + 1):
            peer.event(seq, "x" * 30_000, full=stuck.set)
            sent.append(seq)
        stuck.set()
        peer.ends()

    stage.play(calls, streams)
    async with connected(stage.path) as client, client.subscribe("s") as events:
        seqs = [seq_of(await anext(events))]
        assert await to_thread.run_sync(stuck.wait, 10)
        for _ in range(3):
            assert await client.ping() == "pong"
        # Of 3 MB the kernel holds some hundred KB, and this side one read.
        assert len(sent) < count // 2
        seqs += [seq_of(await anext(events)) for _ in range(count - 1)]
    assert seqs == list(range(1, count + 1))


async def test_a_refused_subscription_raises_and_a_closed_client_ends_it(
    stage: Stage, connected: Connect
) -> None:
    subscribed = threading.Event()

    def refuses(peer: Peer) -> None:
        peer.refuse(peer.read("session/subscribe"), "session_not_found")
        peer.ends()

    def serves(peer: Peer) -> None:
        peer.answer(peer.read("session/subscribe"), {"epoch": "A", "seq": 0})
        peer.read("session/flush")
        subscribed.set()
        peer.ends()

    stage.play(quiet, refuses, serves)
    async with connected(stage.path) as client:
        with pytest.raises(RpcError, match="session_not_found"):
            async with client.subscribe("s"):
                pass
        async with client.subscribe("s") as events, anyio.create_task_group() as group:

            async def consume() -> None:
                assert [event async for event in events] == []

            group.start_soon(consume)
            await anyio.wait_all_tasks_blocked()
            events.request_flush()
            assert await to_thread.run_sync(subscribed.wait, 10)
            client.disconnect()
