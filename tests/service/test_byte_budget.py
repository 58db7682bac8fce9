"""The byte budget of all connections: calls beyond it are refused, and no entry is lost.

After every test here the budget is unused again; `connected` of transport_rig checks that, too.
"""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from sessiond.limits import READ_BYTES, STUCK_SOCKET_SECONDS
from sessiond.rpc.framing import frame_content_length, frame_ndjson
from sessiond.testing.wire import RawWire
from sessiond.transports import receiving as receiving_module
from sessiond.transports.base import SocketPort
from tests.kit.calls import part_of
from tests.kit.limits import set_limits
from tests.kit.patience import PATIENCE_SECONDS
from tests.service.transport_rig import Daemon, connected, quiet, request

pytestmark = pytest.mark.both_loops

LARGE = 10 * READ_BYTES
REFUSAL = "{id,error.data.kind}"


@asynccontextmanager
async def also(daemon: Daemon) -> AsyncGenerator[RawWire]:
    """Connect one more client to the daemon."""
    ours, theirs = socket.socketpair()
    wire = RawWire(theirs)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(daemon.serve, SocketPort(ours, "test"))
        yield wire
        wire.close()


@pytest.mark.parametrize("frame", [frame_ndjson, frame_content_length])
async def test_half_a_large_frame_that_finds_no_room_is_refused_and_its_rest_skipped(
    frame: Any,
) -> None:
    daemon = Daemon()
    daemon.byte_budget.bytes_max = 2 * READ_BYTES
    async with connected(daemon) as (wire, _):
        body = request(1, text="x" * LARGE)[:-1]
        await wire.send_bytes(frame(body) + frame(request(2, text="small")[:-1]))
        wire.end_input()
        data = await wire.rest()
        parts = data.replace(b"Content-", b"\nContent-").split(b"\n")
        bodies = [part for part in parts if part[:1] == b"{"]
        first, second = [json.loads(part) for part in bodies]
        assert part_of(first, REFUSAL) == (None, "overloaded")
        assert first["error"]["data"]["limit"] == 2 * READ_BYTES
        assert second["id"] == 2
        assert daemon.echoed == ["small"]
        assert daemon.byte_budget.frames_refused == 1


async def test_small_requests_get_through_whatever_others_hold() -> None:
    daemon = Daemon()
    async with connected(daemon) as (wire, _):
        half = request(1, text="x" * LARGE)[: LARGE // 2]
        await wire.send_bytes(half)
        await quiet()
        assert daemon.byte_budget.held_bytes == len(half)
        daemon.byte_budget.bytes_max = len(half) - 1
        async with also(daemon) as other:
            await other.send_bytes(request(2, text="y" * (READ_BYTES // 2)))
            assert (await other.message())["id"] == 2


async def test_half_a_frame_that_has_not_grown_for_a_while_gives_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(receiving_module, "current_time", lambda: now)
    daemon = Daemon()
    daemon.byte_budget.bytes_max = 2 * LARGE
    async with connected(daemon) as (stale, _), also(daemon) as fresh, also(daemon) as late:
        frame = request(1, text="x" * 2 * LARGE)
        await stale.send_bytes(frame[:LARGE])
        await quiet()
        now = 1.0
        await fresh.send_bytes(frame[: LARGE - READ_BYTES])
        await quiet()
        now = STUCK_SOCKET_SECONDS
        await late.send_bytes(request(3, text="z" * 3 * READ_BYTES))
        assert (await late.message())["id"] == 3
        assert part_of(await stale.message(), REFUSAL) == (None, "overloaded")
        # Who was told so is served on; what did grow is still there.
        await stale.send_bytes(frame[LARGE:] + request(2))
        assert (await stale.message())["id"] == 2
        await fresh.send_bytes(frame[LARGE - READ_BYTES :])
        assert (await fresh.message())["id"] == 1
        statistics = daemon.byte_budget.statistics()
        assert (statistics.frames_refused, statistics.large_frames) == (1, 0)


async def test_many_bytes_in_flight_stop_the_reading_of_this_connection_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_limits(monkeypatch, IN_FLIGHT_BYTES_MAX=100_000)
    daemon = Daemon()
    async with connected(daemon) as (wire, tasks), also(daemon) as other:
        frames = [request(n, "later", text="x" * 40_000) for n in range(7)]
        tasks.start_soon(wire.send_bytes, b"".join(frames))
        for expected in (3, 3, 1):
            await quiet()
            assert len(daemon.pending) == expected
            assert daemon.byte_budget.held_bytes < 100_000 + 2 * READ_BYTES + 40_100
            await other.send_bytes(request(0))
            await other.message()
            daemon.settle()
        assert [answer["id"] for answer in await wire.messages(7)] == list(range(7))


async def test_large_answers_to_questions_wait_in_a_bounded_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size = 900_000
    set_limits(monkeypatch, RESULT_BYTES_MAX=2 * size)
    daemon = Daemon()
    async with connected(daemon) as (wire, _):
        await wire.send_bytes(b"".join(request(n, "later") for n in range(6)))
        await quiet()
        daemon.settle("x" * size)
        await quiet()
        # What was changed is said whatever waits; `change` is a method of access write.
        await wire.send_bytes(request(6, "change"))
        await quiet()
        daemon.settle("y" * size)
        answers = {answer["id"]: answer for answer in await wire.messages(7)}
        given = [n for n in range(6) if "result" in answers[n]]
        assert given in ([0], [0, 1])
        assert all(
            part_of(answers[n], REFUSAL)[1] == "overloaded" for n in range(6) if n not in given
        )
        assert len(answers[6]["result"]["text"]) == size
        assert daemon.byte_budget.answers_refused == 6 - len(given)


async def test_a_full_daemon_gives_small_answers_and_no_large_ones() -> None:
    daemon = Daemon()
    daemon.byte_budget.bytes_max = 1_000_000
    async with connected(daemon) as (wire, _):
        await wire.send_bytes(request(1, size=999_000) + request(2, size=2_000_000) + request(3))
        first, second, third = await wire.messages(3)
        assert len(first["result"]["text"]) == 999_000
        assert part_of(second, REFUSAL) == (2, "overloaded")
        assert third["id"] == 3


async def test_events_of_all_connections_have_half_of_the_room() -> None:
    daemon = Daemon()
    daemon.byte_budget.bytes_max = 4_000_000
    event = b"e" * 499_999 + b"\n"
    async with connected(daemon) as (_, tasks):
        ends: list[RawWire] = []
        for _number in range(20):
            ours, theirs = socket.socketpair()
            ends.append(RawWire(theirs))
            tasks.start_soon(daemon.serve, SocketPort(ours, "test"))
            # One by one, so that ends and connections have the same order.
            await quiet()
        connections = [client.connection for client in daemon.clients[1:]]
        for _round in range(2):
            for connection in connections:
                connection.offer(event)
                connection.flush()
        # An empty outbox takes one whatever others hold; a second one only while there is room.
        queued = [connection.statistics().outbox.pending_bytes for connection in connections]
        assert min(queued) > 0
        assert daemon.byte_budget.held_bytes == sum(queued)
        assert sum(size > len(event) for size in queued) == 0
        assert daemon.byte_budget.is_full_for_events
        daemon.byte_budget.bytes_max = daemon.byte_budget.held_bytes * 3 // 2
        assert daemon.byte_budget.is_full_for_events
        assert daemon.byte_budget.admits_answer(1)
        daemon.byte_budget.bytes_max = 4_000_000
        refused = connections[0]
        assert not refused.offer(event)
        with anyio.fail_after(PATIENCE_SECONDS):
            async with anyio.create_task_group() as waiting:
                waiting.start_soon(refused.wait_room)
                assert await ends[0].lines(1) == [event]
        # Its own socket is empty: it goes on although all others are as stuck as before.
        assert daemon.byte_budget.is_full_for_events
        assert refused.offer(event)
        refused.flush()
        assert await ends[0].lines(1) == [event]
        for end in ends:
            end.close()
        await quiet()
