"""Calls, their retries and their results, and connections that break or wait."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio import to_thread

from sessiond_client import (
    ClientClosed,
    ConnectionLost,
    ProtocolViolation,
    RpcError,
    connect,
    connect_blocking,
)
from tests.interop.scripted.stage import MESSAGE, STORED, Connect, Peer, Stage, quiet
from tests.kit.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.both_loops


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
        with pytest.raises(ConnectionLost, match="session/heads shows whether it was done") as lost:
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
        assert await to_thread.run_sync(gone.wait, PATIENCE_SECONDS)
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
        assert await to_thread.run_sync(heard.wait, PATIENCE_SECONDS)
        client.disconnect()
    assert told == ["told", "told"]
    with pytest.raises(ClientClosed):
        await client.get("s")


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
            async with connected(
                stage.path, connect_timeout=PATIENCE_SECONDS, client_id="me"
            ) as client:
                assert await client.ping() == "pong"

        group.start_soon(use)
        await anyio.wait_all_tasks_blocked()
        stage.play(serves)


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
                barrier.wait(PATIENCE_SECONDS)
                results.append(client.call("work/do", thread=thread, number=number))
            return results

        for thread, results in enumerate(pool.map(work, range(8))):
            assert results == [{"thread": thread, "number": number} for number in range(20)]


@pytest.mark.parametrize(("method", "is_open"), [("session/label", True), ("session/get", False)])
async def test_a_call_on_its_way_when_the_client_closes_has_the_outcome_that_it_has(
    stage: Stage, method: str, *, is_open: bool
) -> None:
    heard = threading.Event()

    def silent(peer: Peer) -> None:
        peer.read(method)
        heard.set()
        peer.ends()

    stage.play(silent)
    async with connect(stage.path) as client, anyio.create_task_group() as group:

        async def ask() -> None:
            with pytest.raises(ClientClosed) as closed:
                await client.call(method, session_id="s")
            assert closed.value.outcome_unknown is is_open
            assert closed.value.check == ("session/labels" if is_open else None)

        group.start_soon(ask)
        assert await to_thread.run_sync(heard.wait, PATIENCE_SECONDS)
        client.disconnect()
