"""Both Python clients over a real socket, against a daemon that the test scripts.

`Stage` is that daemon: one scene per connection, played in a thread. So one set of scenes serves
the anyio client and the blocking client, whose calls run in worker threads. A scene reads and
writes in a fixed order; no test sleeps.
"""

from __future__ import annotations

import json
import select
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest
from anyio import to_thread

from sessiond_client import (
    BlockingClient,
    BlockingSubscription,
    Client,
    ClientClosed,
    ConnectionLost,
    Cursor,
    EntryEvent,
    Event,
    ProtocolViolation,
    Replaced,
    RpcError,
    Synced,
    Timeout,
    connect,
    connect_blocking,
)

MESSAGE = {"role": "user", "content": "hi"}
BIG = 3_000_000  # far more than a socket buffers
STORED = {"entries": [{"id": "x", "parent_id": None, "seq": 1}], "leaf_id": "x", "seq": 1}


class Peer:
    """The daemon's end of one connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._lines = connection.makefile("rb")

    def read(self, method: str | None = None) -> dict[str, Any]:
        line = self._lines.readline()
        assert line, "the client closed"
        request: dict[str, Any] = json.loads(line)
        assert method in {None, request.get("method")}
        return request

    def ends(self) -> None:
        assert self._lines.readline() == b"", "the client said more than expected"

    def say(self, **message: Any) -> None:
        self.connection.sendall(json.dumps(message).encode() + b"\n")

    def answer(self, request: dict[str, Any], result: Any = None) -> None:
        self.say(jsonrpc="2.0", id=request["id"], result={} if result is None else result)

    def refuse(self, request: dict[str, Any], kind: str, *, retryable: bool = False) -> None:
        data = {"kind": kind, "retryable": retryable}
        self.say(id=request["id"], error={"code": -32001, "message": "no", "data": data})

    def event(self, seq: int, text: str = "", *, full: Callable[[], object] | None = None) -> None:
        """Says it; `full` is called when the socket takes no more for now."""
        entry = {"type": "message", "id": f"e{seq}", "message": {"role": "user", "content": text}}
        params = {"session_id": "s", "epoch": "A", "seq": seq, "entry": entry, "leaf_id": f"e{seq}"}
        rest = memoryview(
            json.dumps({"method": "session/event", "params": params}).encode() + b"\n"
        )
        self.connection.settimeout(0)
        while rest:
            try:
                rest = rest[self.connection.send(rest) :]
            except BlockingIOError:
                if full is not None:
                    full()
                select.select([], [self.connection], [], 20)
        self.connection.settimeout(20)

    def notify(self, word: str, **params: Any) -> None:
        self.say(method=f"session/{word}", params={"session_id": "s", **params})


Scene = Callable[[Peer], None]


class Stage:
    """Plays one scene per connection, in the order in which the client makes them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._pool = ThreadPoolExecutor(8)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.settimeout(20)
        self._plays: list[Any] = []

    def play(self, *scenes: Scene) -> None:
        self._listener.bind(str(self.path))
        self._listener.listen()
        self._plays.append(self._pool.submit(self._accept, scenes))

    def _accept(self, scenes: tuple[Scene, ...]) -> None:
        for scene in scenes:
            connection, _ = self._listener.accept()
            connection.settimeout(20)
            self._plays.append(self._pool.submit(self._perform, scene, connection))

    @staticmethod
    def _perform(scene: Scene, connection: socket.socket) -> None:
        peer = Peer(connection)
        with connection, peer._lines:
            scene(peer)

    def close(self) -> None:
        """Every scene was played to its end, as written."""
        while self._plays:
            self._plays.pop(0).result(20)
        self._pool.shutdown()
        self._listener.close()


@pytest.fixture
def stage(socket_path: Path) -> Iterator[Stage]:
    stage = Stage(socket_path)
    yield stage
    stage.close()


class InThreads:
    """The blocking client, each call in a worker thread, spelled like the other one."""

    def __init__(self, client: BlockingClient) -> None:
        self._client = client
        self.disconnect = client.disconnect

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        async def call(*args: Any, **options: Any) -> Any:
            return await to_thread.run_sync(
                lambda: method(*args, **options), abandon_on_cancel=False
            )

        return call

    def subscribe(self, session_id: str, **options: Any) -> SubscriptionInThreads:
        return SubscriptionInThreads(self._client.subscribe(session_id, **options))


class SubscriptionInThreads:
    """The blocking subscription, each wait in a worker thread."""

    def __init__(self, subscription: BlockingSubscription) -> None:
        self._subscription = subscription
        self.request_flush = subscription.request_flush
        self.close = subscription.close

    @property
    def position(self) -> Cursor | None:
        return self._subscription.position

    async def __aenter__(self) -> SubscriptionInThreads:
        await to_thread.run_sync(self._subscription.__enter__)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._subscription.close()

    def __aiter__(self) -> SubscriptionInThreads:
        return self

    async def __anext__(self) -> Any:
        event = await to_thread.run_sync(next, self._subscription, None)
        if event is None:
            raise StopAsyncIteration
        return event


Connect = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture(params=["tasks", "threads"])
def connected(request: pytest.FixtureRequest) -> Connect:
    """`connect` of the one client or of the other."""
    if request.param == "tasks":
        return connect

    @asynccontextmanager
    async def in_threads(path: Path, **options: Any) -> AsyncIterator[Client]:
        client = connect_blocking(path, **options)
        await to_thread.run_sync(client.__enter__)
        try:
            yield cast("Client", InThreads(client))
        finally:
            client.disconnect()

    return in_threads


def quiet(peer: Peer) -> None:
    """Accept a connection that the client closes again."""
    peer.ends()


def seq_of(event: Event) -> int:
    assert isinstance(event, EntryEvent)
    return event.seq


# --- calls


async def test_an_append_whose_connection_breaks_is_sent_again_with_its_ids(
    stage: Stage, connected: Connect
) -> None:
    sent: list[Any] = []

    def breaks(peer: Peer) -> None:
        sent.append(peer.read("session/append")["params"])

    def answers(peer: Peer) -> None:
        request = peer.read("session/append")
        sent.append(request["params"])
        peer.answer(request, {**STORED, "duplicate": True})
        peer.ends()

    stage.play(breaks, breaks, answers)
    async with connected(stage.path) as client:
        stored = await client.append("s", message=MESSAGE)
    assert stored.duplicate
    assert stored.entries[0].seq == 1
    assert sent[0] == sent[1] == sent[2]
    assert len(sent[0]["entry"]["id"]) == 32


async def test_a_branch_whose_connection_breaks_has_an_unknown_outcome(
    stage: Stage, connected: Connect
) -> None:
    def breaks(peer: Peer) -> None:
        peer.read("session/branch")

    def serves(peer: Peer) -> None:
        peer.answer(peer.read("session/get"), {"session": {"id": "s", "new_field": 1}})
        peer.ends()

    stage.play(breaks, serves)
    async with connected(stage.path) as client:
        with pytest.raises(ConnectionLost, match="outcome is unknown") as lost:
            await client.branch("s", "e1")
        assert lost.value.outcome_unknown
        assert (await client.get("s")).id == "s"


async def test_a_daemon_that_restarted_meanwhile_is_not_noticed(
    stage: Stage, connected: Connect
) -> None:
    gone = threading.Event()

    def serves_once(peer: Peer) -> None:
        peer.answer(peer.read("session/label"), {"seq": 3})
        peer.connection.shutdown(socket.SHUT_RDWR)
        gone.set()

    def ends_without_a_word(peer: Peer) -> None:
        # As a daemon that drains: what waits to be accepted is closed. Nothing was asked of it
        # that may not be asked twice.
        assert peer.read("server/ping")

    def serves(peer: Peer) -> None:
        peer.answer(peer.read("server/ping"), {})
        peer.answer(peer.read("session/label"), {"seq": 4})
        peer.ends()

    stage.play(serves_once, ends_without_a_word, serves)
    async with connected(stage.path) as client:
        assert await client.label("s", "e1", "one") == 3
        assert await to_thread.run_sync(gone.wait, 10)
        assert await client.label("s", "e1", "two") == 4


async def test_refusals_reach_the_caller_with_their_data(stage: Stage, connected: Connect) -> None:
    def refuses(peer: Peer) -> None:
        peer.refuse(peer.read("session/reset"), "overloaded", retryable=True)
        peer.refuse(peer.read("session/reset"), "precondition_failed")
        peer.ends()

    stage.play(refuses)
    async with connected(stage.path) as client:
        with pytest.raises(RpcError, match="precondition_failed") as refused:
            await client.reset("s")
        assert not refused.value.retryable


async def test_a_result_of_another_shape_is_named_and_raw_results_are_bytes(
    stage: Stage, connected: Connect
) -> None:
    def serves(peer: Peer) -> None:
        peer.answer(peer.read("session/heads"), {"heads": 7})
        peer.connection.sendall(b'{"id":%d,"result":{"n": 1.50}}\n' % peer.read("x/y")["id"])
        peer.ends()

    stage.play(serves)
    async with connected(stage.path) as client:
        with pytest.raises(ProtocolViolation):
            await client.heads("s")
        assert await client.call_raw("x/y", a=None) == b'{"n": 1.50}'


async def test_calls_travel_together_and_the_reader_hands_over(
    stage: Stage, connected: Connect
) -> None:
    def first_in_first_out(peer: Peer) -> None:
        requests = [peer.read("work/do") for _ in range(10)]
        for request in requests:
            peer.answer(request, request["params"]["n"])
            if request is requests[4]:
                peer.answer(peer.read("work/do"), "late")
        peer.ends()

    stage.play(first_in_first_out)
    results: dict[int, Any] = {}
    async with connected(stage.path) as client, anyio.create_task_group() as group:

        async def work(n: int) -> None:
            results[n] = await client.call("work/do", n=n)
            if len(results) == 5:
                group.start_soon(work, 10)

        for n in range(10):
            group.start_soon(work, n)
    assert results == {**{n: n for n in range(10)}, 10: "late"}


async def test_what_was_answered_before_the_end_counts(stage: Stage, connected: Connect) -> None:
    def answers_one_of_two(peer: Peer) -> None:
        requests = [peer.read(), peer.read()]
        for request in requests:
            if request["method"] == "session/label":
                peer.answer(request, {"seq": 5})

    stage.play(answers_one_of_two)
    outcomes: list[Any] = []
    async with connected(stage.path) as client, anyio.create_task_group() as group:

        async def label() -> None:
            outcomes.append(await client.label("s", "e", "x"))

        async def reset() -> None:
            with pytest.raises(ConnectionLost):
                await client.reset("s")
            outcomes.append("lost")

        group.start_soon(label)
        group.start_soon(reset)
    assert sorted(outcomes, key=str) == [5, "lost"]


async def test_a_call_without_an_answer_times_out_and_is_cancelled_there(
    stage: Stage, connected: Connect
) -> None:
    cancelled = threading.Event()

    def silent(peer: Peer) -> None:
        request = peer.read("session/branch")
        cancel = peer.read("$/cancelRequest")
        assert cancel["params"] == {"id": request["id"]}
        cancelled.set()
        peer.answer(request)
        peer.answer(peer.read("server/ping"), "pong")
        peer.ends()

    stage.play(silent)
    async with connected(stage.path) as client:
        with pytest.raises(Timeout) as timeout:
            await client.branch("s", None, timeout=0.05)
        assert timeout.value.outcome_unknown
        assert await to_thread.run_sync(cancelled.wait, 10)
        assert await client.ping() == "pong"


async def test_a_cancelled_call_lets_the_others_read_on(stage: Stage) -> None:
    heard = anyio.Event()

    def waits_for_the_cancel(peer: Peer) -> None:
        first, second = peer.read("work/long"), peer.read("work/do")
        anyio.from_thread.run_sync(heard.set, token=token)
        assert peer.read("$/cancelRequest")["params"] == {"id": first["id"]}
        peer.answer(second, "done")
        peer.ends()

    token = anyio.lowlevel.current_token()
    stage.play(waits_for_the_cancel)
    async with connect(stage.path) as client, anyio.create_task_group() as group:

        async def long() -> None:
            with anyio.CancelScope() as scope:
                scopes.append(scope)
                await client.call("work/long")

        async def do() -> None:
            assert await client.call("work/do") == "done"

        scopes: list[anyio.CancelScope] = []
        group.start_soon(long)
        await anyio.wait_all_tasks_blocked()
        group.start_soon(do)
        await heard.wait()
        scopes[0].cancel()


async def test_a_call_whose_task_is_cancelled_is_cancelled_there(stage: Stage) -> None:
    cancelled = anyio.Event()
    token = anyio.lowlevel.current_token()

    def waits_for_the_cancel(peer: Peer) -> None:
        request = peer.read("work/long")
        anyio.from_thread.run_sync(scope.cancel, token=token)
        assert peer.read("$/cancelRequest")["params"] == {"id": request["id"]}
        anyio.from_thread.run_sync(cancelled.set, token=token)
        peer.ends()

    scope = anyio.CancelScope()
    stage.play(waits_for_the_cancel)
    async with connect(stage.path) as client:
        with scope:
            await client.call("work/long")
        await cancelled.wait()


async def test_a_large_request_is_written_while_a_large_answer_is_read(
    stage: Stage, connected: Connect
) -> None:
    def writes_before_it_reads(peer: Peer) -> None:
        request = peer.read("session/entries")
        peer.read("$/cancelRequest")
        peer.answer(request, "x" * BIG)
        large = peer.read("session/append")
        assert len(large["params"]["entry"]["message"]["content"]) == BIG
        peer.answer(large, STORED)
        peer.ends()

    stage.play(writes_before_it_reads)
    async with connected(stage.path) as client:
        with pytest.raises(Timeout):
            await client.entries("s", timeout=0.05)
        stored = await client.append("s", message={"role": "user", "content": "y" * BIG})
        assert stored.leaf_id == "x"


async def test_a_small_call_passes_while_a_large_one_is_being_written(
    stage: Stage, connected: Connect
) -> None:
    def reads_late(peer: Peer) -> None:
        peer.answer(peer.read("work/first"))
        requests = [peer.read(), peer.read()]
        assert {request["method"] for request in requests} == {"session/append", "server/ping"}
        for request in requests:
            peer.answer(request, STORED)
        peer.ends()

    stage.play(reads_late)
    async with connected(stage.path) as client:
        await client.call("work/first")
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: client.append("s", message={"role": "user", "c": "y" * BIG}))
            group.start_soon(client.ping)


async def test_a_reader_minds_what_others_send_and_when_they_give_up(
    stage: Stage, connected: Connect
) -> None:
    heard = threading.Event()

    def answers_the_reader_last(peer: Peer) -> None:
        reader = peer.read("work/long")
        heard.set()
        peer.answer(peer.read("session/append"), STORED)
        peer.read("session/branch")
        peer.read("$/cancelRequest")
        peer.answer(reader)
        peer.ends()

    stage.play(answers_the_reader_last)
    async with (
        connected(stage.path, timeout=None) as client,
        anyio.create_task_group() as group,
    ):
        group.start_soon(client.call, "work/long")
        assert await to_thread.run_sync(heard.wait, 10)
        await client.append("s", message={"role": "user", "content": "y" * BIG})
        with pytest.raises(Timeout):
            await client.branch("s", None, timeout=0.05)


async def test_every_call_is_a_checkpoint(stage: Stage) -> None:
    stage.play(quiet)
    async with connect(stage.path) as client:
        client.disconnect()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await client.get("s")
        assert scope.cancelled_caught


async def test_disconnecting_tells_every_caller(stage: Stage, connected: Connect) -> None:
    heard = threading.Event()

    def silent(peer: Peer) -> None:
        peer.read()
        peer.read()
        heard.set()
        peer.ends()

    stage.play(silent)
    told: list[str] = []
    async with connected(stage.path) as client, anyio.create_task_group() as group:

        async def ask() -> None:
            with pytest.raises(ClientClosed):
                await client.get("s")
            told.append("told")

        group.start_soon(ask)
        group.start_soon(ask)
        assert await to_thread.run_sync(heard.wait, 10)
        client.disconnect()
    assert told == ["told", "told"]
    with pytest.raises(ClientClosed):
        await client.get("s")


# --- connecting


async def test_no_daemon_is_told_at_once(tmp_path: Path, connected: Connect) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(ConnectionLost, match="cannot connect") as lost:
            async with connected(path):
                pass
        assert not lost.value.outcome_unknown


async def test_a_daemon_that_starts_meanwhile_is_waited_for(
    stage: Stage, connected: Connect
) -> None:
    def serves(peer: Peer) -> None:
        peer.answer(peer.read("initialize"))
        peer.answer(peer.read("server/ping"), "pong")
        peer.ends()

    async with anyio.create_task_group() as group:

        async def use() -> None:
            async with connected(stage.path, connect_timeout=20.0, client_id="me") as client:
                assert await client.ping() == "pong"

        group.start_soon(use)
        await anyio.wait_all_tasks_blocked()
        stage.play(serves)


# --- subscriptions


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


def test_threads_share_one_blocking_client(stage: Stage) -> None:
    def shuffles(peer: Peer) -> None:
        waiting: list[dict[str, Any]] = []
        for number in range(160):
            waiting.append(peer.read("work/do"))
            # Answers as late as eight callers allow, newest first.
            if len(waiting) == 8 or number > 152:
                while waiting:
                    request = waiting.pop()
                    peer.answer(request, request["params"])
        peer.ends()

    stage.play(shuffles)
    with connect_blocking(stage.path) as client, ThreadPoolExecutor(8) as pool:
        barrier = threading.Barrier(8)

        def work(thread: int) -> list[Any]:
            results: list[Any] = []
            for number in range(20):
                barrier.wait(20)
                results.append(client.call("work/do", thread=thread, number=number))
            return results

        for thread, results in enumerate(pool.map(work, range(8))):
            assert results == [{"thread": thread, "number": number} for number in range(20)]


# --- requests of the daemon


def offers_twice() -> tuple[Scene, Scene, list[Any]]:
    """Return two scenes: a daemon that asks and gets an answer, and one that gets none."""
    said: list[Any] = []
    about = {"session_id": "s", "entry_id": "e1"}

    def greets(peer: Peer) -> None:
        hello = peer.read("initialize")
        said.append(hello["params"])
        peer.answer(hello, {"capabilities": {"summarize": True, "hooks": ["before_fork"]}})
        peer.say(id=1, method="client/before_fork", params=about)

    def answered(peer: Peer) -> None:
        greets(peer)
        said.append(peer.read()["result"])

    def unanswered(peer: Peer) -> None:
        greets(peer)
        peer.ends()

    return answered, unanswered, said


HELLO = {"capabilities": {"summarize": False, "hooks": ["before_fork"]}}


async def test_an_offer_is_made_on_every_connection(stage: Stage) -> None:
    answered, unanswered, said = offers_twice()
    stage.play(quiet, answered, unanswered)
    async with (
        connect(stage.path) as client,
        client.offer(hooks=["before_fork"]) as offer,
    ):
        (await anext(offer)).veto("no")
        second = await anext(offer)
    assert second.is_withdrawn
    assert said == [HELLO, {"veto": "no"}, HELLO]


def test_an_offer_in_threads_is_made_on_every_connection(stage: Stage) -> None:
    answered, unanswered, said = offers_twice()
    stage.play(quiet, answered, unanswered)
    with (
        connect_blocking(stage.path) as client,
        client.offer(hooks=["before_fork"]) as offer,
    ):
        first = next(offer)
        # Answered by another thread, while this one waits for the next request.
        with ThreadPoolExecutor(1) as pool:
            vetoed = pool.submit(first.veto, "no")
            second = next(offer)
            vetoed.result(20)
    assert second.is_withdrawn
    assert said == [HELLO, {"veto": "no"}, HELLO]
