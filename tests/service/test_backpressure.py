"""Full sockets and full outboxes: reading stops, no answer is lost, events are refused."""

from __future__ import annotations

import math
import socket

import anyio
import pytest

from sessiond.limits import OUTBOX_BYTES_MAX, STUCK_SOCKET_SECONDS
from sessiond.testing.wire import RawWire
from sessiond.transports.base import Port, SocketPort
from tests.kit.limits import set_limits
from tests.service.transport_rig import CountingPort, Daemon, connected, quiet, request

pytestmark = pytest.mark.both_loops


async def test_answers_that_fill_the_outbox_stop_the_reading_and_none_is_lost() -> None:
    daemon = Daemon()
    count, size = 200, 100_000
    async with connected(daemon) as (wire, _):
        # All of them fit into one chunk; a daemon that did not stop would hold 20 MB of answers.
        await wire.send_bytes(b"".join(request(n, size=size) for n in range(count)))
        await quiet()
        statistics = daemon.clients[0].connection.statistics()
        assert statistics.outbox.answer_bytes <= OUTBOX_BYTES_MAX + size + 100
        assert len(daemon.echoed) < 30
        answers = await wire.messages(count)
        assert [answer["id"] for answer in answers] == list(range(count))
        assert all(len(answer["result"]["text"]) == size for answer in answers)


async def test_a_client_that_never_reads_is_not_read_forever() -> None:
    daemon = Daemon()
    async with connected(daemon) as (wire, _):
        chunk = request(1, size=1000) * 100
        sent = 0
        for _ in range(1000):
            taken = wire.send_some(chunk)
            sent += taken
            await quiet()
            if not taken:
                break
        else:
            pytest.fail("the daemon read everything")
        assert daemon.clients[0].connection.statistics().received_bytes < sent


async def test_too_many_requests_in_flight_stop_the_reading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_limits(monkeypatch, IN_FLIGHT_MAX=5)
    daemon = Daemon()
    async with connected(daemon) as (wire, _):
        await wire.send_bytes(b"".join(request(n, "later") for n in range(12)) + request(12))
        for expected in (5, 5, 2):
            await quiet()
            assert len(daemon.pending) == expected
            daemon.settle()
        ids = [answer["id"] for answer in await wire.messages(13)]
        assert sorted(ids) == list(range(13))


async def test_one_stuck_client_slows_no_other() -> None:
    daemon = Daemon()
    async with connected(daemon) as (stuck, tasks):
        await stuck.send_bytes(b"".join(request(n, size=100_000) for n in range(100)))
        await quiet()
        ours, theirs = socket.socketpair()
        tasks.start_soon(daemon.serve, SocketPort(ours))
        other = RawWire(theirs)
        for n in range(20):
            await other.send_bytes(request(n))
            assert (await other.message())["id"] == n
        other.close()


async def test_a_large_answer_survives_a_socket_that_takes_little_at_once() -> None:
    daemon = Daemon()
    async with connected(daemon, lambda port: CountingPort(port, takes=5000)) as (wire, _):
        await wire.send_bytes(request(1, size=300_000) + request(2, text="behind"))
        first, second = await wire.messages(2)
        assert len(first["result"]["text"]) == 300_000
        assert second["result"]["text"] == "behind"
        outbox = daemon.clients[0].connection.statistics().outbox
        assert outbox.pending_bytes == outbox.answer_bytes == 0
        assert outbox.stalls == 1


async def test_events_are_refused_when_the_outbox_is_full_and_answers_are_not() -> None:
    daemon = Daemon()
    ports: list[CountingPort] = []

    def wrap(port: SocketPort) -> Port:
        ports.append(CountingPort(port, takes=0))
        return ports[0]

    async with connected(daemon, wrap) as (wire, tasks):
        connection = daemon.clients[0].connection
        huge = b"e" * (2 * OUTBOX_BYTES_MAX - 1) + b"\n"
        assert connection.offer(huge), "an empty outbox takes one frame of any size"
        assert not connection.offer(b"e\n")
        connection.put(b"answer\n")
        outbox = connection.statistics().outbox
        assert outbox.pending_bytes == len(huge) + 7
        assert outbox.answer_bytes == 7
        room = False

        async def wait() -> None:
            nonlocal room
            await connection.wait_room()
            room = True

        tasks.start_soon(wait)
        await quiet()
        assert not room
        ports[0].release()
        received = await wire.lines(2)
        assert received == [huge, b"answer\n"]
        await quiet()
        assert room
        assert connection.offer(b"e\n")


async def test_a_refused_frame_finds_room_when_the_wait_is_over() -> None:
    daemon = Daemon()
    ports: list[CountingPort] = []

    def wrap(port: SocketPort) -> Port:
        ports.append(CountingPort(port, takes=0))
        return ports[0]

    async with connected(daemon, wrap) as (wire, tasks):
        connection = daemon.clients[0].connection
        # Less than half an outbox waits, and yet this frame does not fit beside it.
        first, second = b"a" * 99_999 + b"\n", b"b" * (OUTBOX_BYTES_MAX - 1) + b"\n"
        assert connection.offer(first)
        offered = 0

        async def replay() -> None:
            nonlocal offered
            while not connection.offer(second):
                offered += 1
                await connection.wait_room()
            connection.flush()

        tasks.start_soon(replay)
        await quiet()
        assert offered == 1
        ports[0].release()
        assert await wire.lines(2) == [first, second]
        assert offered == 1


async def test_events_that_nobody_tried_to_send_yet_do_not_count_as_full() -> None:
    daemon = Daemon()
    async with connected(daemon) as (wire, _):
        connection = daemon.clients[0].connection
        first, second = b"a" * 9_999 + b"\n", b"b" * (OUTBOX_BYTES_MAX - 5_000) + b"\n"
        assert connection.offer(first)
        assert connection.offer(second)
        connection.flush()
        assert await wire.lines(2) == [first, second]


async def test_a_socket_that_takes_nothing_while_an_answer_waits_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_limits(monkeypatch, STUCK_SOCKET_SECONDS=0.05)
    daemon = Daemon()
    async with connected(daemon) as (wire, _):
        await wire.send_bytes(request(1, size=5_000_000))
        await daemon.clients[0].gone.wait()
        assert len(await wire.rest()) < 5_000_000


async def test_only_an_answer_starts_the_clock_of_a_stuck_socket() -> None:
    daemon = Daemon()
    async with connected(daemon) as (wire, _):
        connection = daemon.clients[0].connection
        outbox = connection._outbox
        connection.offer(b"e" * 4_999_999 + b"\n")
        connection.flush()
        await quiet()
        assert outbox.statistics().stalls == 1
        assert outbox._stuck.deadline == math.inf
        connection.put(b"answer\n")
        connection.flush()
        now = anyio.current_time()
        assert now < outbox._stuck.deadline <= now + STUCK_SOCKET_SECONDS
        event, answer = await wire.lines(2)
        assert (len(event), answer) == (5_000_000, b"answer\n")
