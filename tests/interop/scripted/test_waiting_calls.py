"""Calls that wait: time-outs, cancelled calls, large requests and answers."""

from __future__ import annotations

import threading

import anyio
import anyio.lowlevel
import pytest
from anyio import to_thread

from sessiond_client import Timeout, connect
from tests.interop.scripted.stage import BIG, STORED, Connect, Peer, Stage

pytestmark = pytest.mark.both_loops


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
        assert "session/heads shows whether it was done" in str(timeout.value)
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
