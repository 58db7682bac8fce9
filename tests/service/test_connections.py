"""Requests and their answers over a socket pair: chunks, framings, nonsense, limits."""

from __future__ import annotations

import socket

import pytest

from sessiond.limits import READ_BYTES, TURN_MESSAGES_MAX
from sessiond.rpc.framing import Framer, frame_content_length
from sessiond.testing.wire import RawWire
from sessiond.transports import receiving as receiving_module
from sessiond.transports.base import Port, SocketPort
from tests.service.transport_rig import CountingPort, Daemon, connected, quiet, request

pytestmark = pytest.mark.both_loops


async def test_a_chunk_of_requests_is_answered_in_order_with_one_send() -> None:
    daemon = Daemon()
    ports: list[CountingPort] = []

    def wrap(port: SocketPort) -> Port:
        ports.append(CountingPort(port))
        return ports[0]

    async with connected(daemon, wrap) as (wire, _):
        await wire.send_bytes(b"".join(request(n, text=str(n)) for n in range(64)))
        answers = await wire.messages(64)
        assert [answer["id"] for answer in answers] == list(range(64))
        assert [answer["result"]["text"] for answer in answers] == [str(n) for n in range(64)]
        assert len(ports[0].sends) == 1


async def test_what_is_settled_when_a_chunk_is_done_goes_out_with_the_rest_of_it() -> None:
    daemon = Daemon()
    daemon.on_chunk_done = daemon.settle_quietly
    ports: list[CountingPort] = []

    def wrap(port: SocketPort) -> Port:
        ports.append(CountingPort(port))
        return ports[0]

    async with connected(daemon, wrap) as (wire, _):
        await wire.send_bytes(request(1, "later") + request(2) + request(3, "later"))
        assert [answer["id"] for answer in await wire.messages(3)] == [2, 1, 3]
        assert len(ports[0].sends) == 1
        assert daemon.clients[0].chunks == 1


async def test_requests_may_arrive_byte_by_byte() -> None:
    daemon = Daemon()
    async with connected(daemon) as (wire, _):
        for byte in request(1, text="a") + request(2, text="b"):
            await wire.send_bytes(bytes([byte]))
            await quiet()
        assert [answer["id"] for answer in await wire.messages(2)] == [1, 2]


async def test_content_length_is_answered_in_kind() -> None:
    async with connected(Daemon()) as (wire, _):
        await wire.send_bytes(frame_content_length(request(1, text="a")))
        wire.end_input()
        assert await wire.rest() == frame_content_length(
            b'{"jsonrpc":"2.0","id":1,"result":{"text":"a"}}'
        )


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\x00\x01\x02",
        b"Content-Length: x\r\n\r\n{}",
    ],
)
async def test_what_is_no_client_is_closed_without_an_answer(data: bytes) -> None:
    daemon = Daemon()
    async with connected(daemon) as (wire, _):
        await wire.send_bytes(data)
        assert await wire.rest() == b""
    assert daemon.clients[0].closed_count == 1
    assert daemon.logged == []


async def test_what_came_before_nonsense_is_answered_before_the_close() -> None:
    async with connected(Daemon()) as (wire, _):
        await wire.send_bytes(frame_content_length(request(1)) + b"nonsense\r\n\r\n")
        assert b'"id":1' in await wire.rest()


async def test_of_very_many_messages_all_are_answered_and_others_have_their_turn_between() -> None:
    daemon = Daemon()
    count = 3 * TURN_MESSAGES_MAX
    async with connected(daemon) as (wire, tasks):
        ours, theirs = socket.socketpair()
        tasks.start_soon(daemon.serve, SocketPort(ours))
        await quiet()
        other = RawWire(theirs)
        # One chunk, and nonsense behind it that ends the connection.
        data = b"".join(frame_content_length(b'{"id":0,"method":"echo"}') for _ in range(count))
        assert len(data) < READ_BYTES * 2
        assert wire.send_some(data + b"nonsense\r\n\r\n") > len(data)
        assert other.send_some(request(1, text="b"))
        assert (await other.message())["id"] == 1
        assert (await wire.rest()).count(b'"result"') == count
        assert daemon.echoed.index("b") < count
        other.close()


async def test_a_bad_line_is_answered_and_the_next_one_served() -> None:
    async with connected(Daemon()) as (wire, _):
        await wire.send_bytes(
            b'{"id":\n' + b'{"\xff"}\n' + b'{"id":1,"method":"a\x00"}\n' + request(2)
        )
        answers = await wire.messages(4)
        codes = [answer.get("error", {}).get("code") for answer in answers]
        assert codes == [-32700, -32700, -32700, None]
        assert answers[3]["id"] == 2


async def test_a_line_over_the_limit_is_refused_and_the_next_one_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(receiving_module, "Framer", lambda: Framer(frame_bytes_max=100_000))
    async with connected(Daemon()) as (wire, _):
        await wire.send_bytes(request(1, text="x" * 300_000) + request(2))
        first, second = await wire.messages(2)
        assert (first["id"], first["error"]["data"]["kind"]) == (None, "too_large")
        assert second["id"] == 2
