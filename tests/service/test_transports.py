"""Transports over real sockets, pipes and files, on both backends."""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import math
import os
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint
from msgspec import Struct

from sessiond.limits import (
    DEFAULT_BOUNDS,
    OUTBOX_BYTES_MAX,
    READ_BYTES,
    RETRY_AFTER_MS,
    STUCK_SOCKET_SECONDS,
    TURN_MESSAGES_MAX,
    Bounds,
)
from sessiond.model.deferred import DEFERRED
from sessiond.rpc.dispatch import Call, Dispatcher, Method
from sessiond.rpc.framing import Framer, frame_content_length, frame_ndjson
from sessiond.rpc.params import Params
from sessiond.service.byte_budget import ByteBudget
from sessiond.testing.wire import RawWire
from sessiond.transports import receiving as receiving_module
from sessiond.transports.admission import Admission
from sessiond.transports.base import FdPort, Port, SocketPort
from sessiond.transports.connection import Connection
from sessiond.transports.listening import CannotListen, Listening, listen
from sessiond.transports.serving import serve_connection
from sessiond.transports.unix import serve_unix
from tests.kit.limits import set_limits


async def quiet() -> None:
    """Wait until no task can go on and no socket holds data."""
    for _ in range(20):
        await checkpoint()
    await anyio.wait_all_tasks_blocked()


class EchoParams(Params):
    text: str = ""
    size: int = 0


class Result(Struct):
    text: str


class Client:
    """The client as the connection sees it."""

    def __init__(self, daemon: Daemon, connection: Connection[Client]) -> None:
        self.daemon = daemon
        self.connection = connection
        self.closed_count = 0
        self.gone = anyio.Event()
        self.chunks = 0

    def chunk_begun(self) -> None:
        """Do nothing: this client gathers no sessions."""

    def chunk_done(self) -> None:
        self.chunks += 1
        self.daemon.on_chunk_done()

    def input_ended(self) -> None:
        """Do nothing at the end of the input."""

    def closed(self) -> None:
        self.closed_count += 1
        self.gone.set()
        if self.daemon.closed_fails:
            raise RuntimeError("a bug in the service")


class Daemon:
    """A dispatcher with a few methods, and everything that happened to it."""

    def __init__(self) -> None:
        self.clients: list[Client] = []
        self.pending: list[Call[Client]] = []
        self.echoed: list[str] = []
        self.logged: list[tuple[str, str, Exception]] = []
        self.closed_fails = False
        self.byte_budget = ByteBudget()
        self.on_chunk_done: Callable[[], None] = lambda: None
        self.dispatcher: Dispatcher[Client] = Dispatcher(
            [
                self._method("echo", self._echo),
                self._method("later", self._later),
                self._method("exit", self._exit),
                self._method("start", self._start),
                self._method("change", self._later, access="write"),
            ],
            log_exception=lambda *what: self.logged.append(what),
            allow=lambda client, method: None,
        )

    def _method(
        self, name: str, handle: Callable[..., Any], **more: Any
    ) -> Method[Client, EchoParams]:
        return Method(name=name, params=EchoParams, result=Result, handle=handle, **more)

    def _echo(self, client: Client, params: EchoParams, call: Call[Client]) -> Result:
        self.echoed.append(params.text)
        return Result(params.text + "x" * params.size)

    def _later(self, client: Client, params: EchoParams, call: Call[Client]) -> Any:
        self.pending.append(call)
        return DEFERRED

    def _exit(self, client: Client, params: EchoParams, call: Call[Client]) -> Any:
        client.connection.close()

    def _start(self, client: Client, params: EchoParams, call: Call[Client]) -> Result:
        async def fail() -> None:
            raise RuntimeError("a bug in a task")

        client.connection.start(fail)
        return Result("started")

    def make_client(self, connection: Connection[Client]) -> Client:
        client = Client(self, connection)
        self.clients.append(client)
        return client

    async def serve(self, port: Port) -> None:
        await serve_connection(port, self.dispatcher, self.make_client, self.byte_budget)

    def settle(self, text: str = "done") -> None:
        """Answer every pending call, as a session's writer does."""
        settled = list(self.pending)
        self.settle_quietly(text)
        for call in settled:
            call.flush()

    def settle_quietly(self, text: str = "done") -> None:
        """Answer all pending calls, without a flush."""
        for call in self.pending:
            call.answer(Result(text))
        self.pending.clear()


def request(id_: int, method: str = "echo", **params: Any) -> bytes:
    return json.dumps({"id": id_, "method": method, "params": params}).encode() + b"\n"


@asynccontextmanager
async def connected(
    daemon: Daemon, wrap: Callable[[SocketPort], Port] = lambda port: port
) -> AsyncGenerator[tuple[RawWire, TaskGroup]]:
    """Let a daemon serve one end of a socket pair; yield the other end.

    At the end of the block the daemon must keep no bytes for any connection.
    """
    ours, theirs = socket.socketpair()
    wire = RawWire(theirs)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(daemon.serve, wrap(SocketPort(ours, "test")))
            await quiet()
            yield wire, tasks
            wire.close()
    assert (daemon.byte_budget.held_bytes, daemon.byte_budget.statistics().large_frames) == (0, 0)


class CountingPort:
    """Counts what goes to the socket, and lets it take only so much at once."""

    def __init__(self, port: SocketPort, takes: int = 1 << 30) -> None:
        self._port = port
        self._released = anyio.Event()
        self.takes = takes
        self.sends: list[int] = []
        self.peer = port.peer
        self.recv = port.recv
        self.wait_readable = port.wait_readable
        self.pump = port.pump
        self.close = port.close

    def send(self, data: bytes | memoryview) -> int:
        if not self.takes:
            return 0
        sent = self._port.send(data[: self.takes])
        self.sends.append(sent)
        return sent

    async def wait_writable(self) -> None:
        if not self.takes:
            await self._released.wait()
        await self._port.wait_writable()

    def release(self) -> None:
        """Let the socket take all that it can from now on."""
        self.takes = 1 << 30
        self._released.set()


# -- reading and answering -------------------------------------------------------------


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


# -- the end of input ---------------------------------------------------------------------


async def test_the_end_of_input_cancels_nothing() -> None:
    daemon = Daemon()
    async with connected(daemon) as (wire, _):
        await wire.send_bytes(request(1, "later") + request(2))
        assert (await wire.message())["id"] == 2
        wire.end_input()
        await quiet()
        assert daemon.clients[0].closed_count == 0
        daemon.settle("stored")
        assert json.loads(await wire.rest())["result"] == {"text": "stored"}
        await quiet()
        assert daemon.clients[0].closed_count == 1


async def test_the_last_line_may_lack_its_newline() -> None:
    async with connected(Daemon()) as (wire, _):
        await wire.send_bytes(request(1).rstrip())
        wire.end_input()
        assert json.loads(await wire.rest())["id"] == 1


@pytest.mark.parametrize(
    ("half", "answered"),
    [(request(1)[:-5], True), (frame_content_length(request(1))[:-5], False)],
)
async def test_half_a_frame_runs_nothing(half: bytes, *, answered: bool) -> None:
    daemon = Daemon()
    async with connected(daemon) as (wire, _):
        await wire.send_bytes(half)
        wire.end_input()
        received = await wire.rest()
        assert bool(received) is answered
        if answered:
            assert json.loads(received)["error"]["code"] == -32700
    assert daemon.echoed == []


async def test_a_task_of_the_connection_may_finish_after_the_end_of_input() -> None:
    daemon = Daemon()
    go_on = anyio.Event()

    async with connected(daemon) as (wire, _):
        await wire.send_bytes(request(1))
        await wire.message()
        connection = daemon.clients[0].connection

        async def replay() -> None:
            await go_on.wait()
            assert connection.offer(frame_ndjson(b'{"event":1}'))
            connection.flush()

        connection.start(replay)
        wire.end_input()
        await quiet()
        assert daemon.clients[0].closed_count == 0
        go_on.set()
        assert await wire.rest() == b'{"event":1}\n'


async def test_a_client_that_vanishes_is_told_to_the_service_once_and_answers_go_nowhere() -> None:
    daemon = Daemon()
    async with connected(daemon) as (wire, _):
        await wire.send_bytes(request(1, "later"))
        await quiet()
        wire.close()
        await quiet()
        daemon.settle()
        await quiet()
        client = daemon.clients[0]
        assert client.closed_count == 1
        # Whatever the service still has to say is swallowed.
        client.connection.put(b"x\n")
        assert client.connection.offer(b"x\n")
        client.connection.flush()
        await client.connection.wait_room()
        client.connection.start(anyio.sleep_forever)
    assert daemon.logged == []


async def test_a_socket_that_breaks_while_sending_ends_the_connection() -> None:
    daemon = Daemon()
    async with connected(daemon) as (wire, _):
        await wire.send_bytes(request(1))
        await wire.message()
        wire.close()
        connection = daemon.clients[0].connection
        connection.put(b"x\n")
        connection.flush()
        await quiet()
        assert daemon.clients[0].closed_count == 1


async def test_close_answers_what_was_asked_and_runs_nothing_more() -> None:
    daemon = Daemon()
    async with connected(daemon) as (wire, _):
        await wire.send_bytes(
            request(1, "later", text="a") + request(2, "exit") + request(3, text="never")
        )
        assert (await wire.message())["id"] == 2
        daemon.settle()
        assert json.loads(await wire.rest())["id"] == 1
    assert daemon.echoed == []


async def test_close_from_outside_wakes_a_connection_that_waits_for_input() -> None:
    daemon = Daemon()
    async with connected(daemon) as (wire, _):
        await wire.send_bytes(request(1))
        await wire.message()
        daemon.clients[0].connection.close()
        assert await wire.rest() == b""


# -- back pressure ------------------------------------------------------------------------


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


# -- containment ---------------------------------------------------------------------------


async def test_a_bug_in_a_task_ends_its_connection_only() -> None:
    daemon = Daemon()
    async with connected(daemon) as (wire, tasks):
        await wire.send_bytes(request(1, "start"))
        await wire.rest()
        ((_, name, error),) = daemon.logged
        assert "fail" in name
        assert isinstance(error, RuntimeError)
        assert daemon.clients[0].closed_count == 1
        assert not tasks.cancel_scope.cancel_called


async def test_a_bug_at_the_end_of_a_connection_reaches_nobody_else() -> None:
    daemon = Daemon()
    daemon.closed_fails = True
    async with connected(daemon) as (wire, _):
        await wire.send_bytes(request(1))
        await wire.message()
    assert [what[1] for what in daemon.logged] == ["connection"]


async def test_log_lines_hold_no_content(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with connected(Daemon()) as (wire, _):
        await wire.send_bytes(request(1, text="private") + b'{"private\n' + b"\xff private\n")
        await wire.messages(3)
    ours = [record for record in caplog.records if record.name.startswith("sessiond")]
    assert len(ours) == 2
    assert all("private" not in str(vars(record)) for record in ours)


# -- the Unix socket -------------------------------------------------------------------------


@asynccontextmanager
async def listening(
    daemon: Daemon, path: Path, bounds: Bounds = DEFAULT_BOUNDS
) -> AsyncGenerator[TaskGroup]:
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            admission = Admission(daemon.byte_budget, lambda: bounds)
            await tasks.start(serve_unix, partial(listen, path), daemon.serve, admission)
            yield tasks
            tasks.cancel_scope.cancel()


async def serve_on(path: Path) -> None:
    daemon = Daemon()
    await serve_unix(partial(listen, path), daemon.serve, Admission(daemon.byte_budget))


async def connect(path: Path) -> RawWire:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(0)
    sock.connect(str(path))
    return RawWire(sock)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


async def test_clients_connect_and_are_served_over_a_unix_socket(socket_path: Path) -> None:
    daemon = Daemon()
    async with listening(daemon, socket_path):
        first, second = await connect(socket_path), await connect(socket_path)
        await second.send_bytes(request(2))
        await first.send_bytes(request(1))
        assert (await first.message())["id"] == 1
        assert (await second.message())["id"] == 2
        first.close()
        await second.send_bytes(request(3))
        assert (await second.message())["id"] == 3
        assert f"pid {os.getpid()}" in {client.connection.peer for client in daemon.clients}
        second.close()
    assert not socket_path.exists()


async def test_the_socket_is_private_whatever_the_umask(
    socket_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = socket_path.parent / "a" / "b" / "s"
    modes: list[int] = []
    bind = socket.socket.bind

    class Spy(socket.socket):
        def bind(self, address: Any) -> None:
            bind(self, address)
            modes.append(mode(Path(address)))

    monkeypatch.setattr(socket, "socket", Spy)
    before = os.umask(0)
    try:
        async with listening(Daemon(), path):
            assert modes == [0o600]
            assert mode(path) == 0o600
            assert mode(path.parent) == mode(path.parent.parent) == 0o700
            assert os.umask(0) == 0
    finally:
        os.umask(before)


async def test_a_dead_socket_is_replaced(socket_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(socket_path))
    async with listening(Daemon(), socket_path):
        wire = await connect(socket_path)
        await wire.send_bytes(request(1))
        assert (await wire.message())["id"] == 1
        wire.close()


async def test_a_socket_that_somebody_listens_on_is_left_alone(socket_path: Path) -> None:
    async with listening(Daemon(), socket_path):
        with pytest.raises(CannotListen, match="another process listens"):
            await serve_on(socket_path)
        wire = await connect(socket_path)
        await wire.send_bytes(request(1))
        assert (await wire.message())["id"] == 1
        wire.close()


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
async def test_what_is_no_socket_is_never_removed(socket_path: Path, kind: str) -> None:
    target = socket_path.parent / "target"
    if kind == "folder":
        socket_path.mkdir()
    elif kind == "file":
        socket_path.write_text("precious")
    else:
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(target))
        socket_path.symlink_to(target)
    with pytest.raises(CannotListen, match=r"is not a socket; it was left alone"):
        await serve_on(socket_path)
    assert socket_path.exists()
    if kind == "file":
        assert socket_path.read_text() == "precious"


async def test_a_path_that_the_kernel_refuses_is_named(socket_path: Path) -> None:
    with pytest.raises(CannotListen, match="too long"):
        await serve_on(socket_path.parent / ("x" * 120))
    socket_path.write_text("in the way")
    with pytest.raises(CannotListen, match=str(socket_path)):
        await serve_on(socket_path / "s")


async def test_a_socket_that_replaced_ours_is_not_removed_at_the_end(socket_path: Path) -> None:
    async with listening(Daemon(), socket_path):
        # Kept beside it, so that the file system cannot give its inode to the new one.
        socket_path.rename(socket_path.with_name("old"))
        socket_path.write_text("somebody else's")
    assert socket_path.read_text() == "somebody else's"


async def test_of_many_who_find_a_dead_socket_one_listens(socket_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(socket_path))
    won: list[Listening] = []
    lost: list[str] = []

    def try_to_listen() -> None:
        try:
            won.append(listen(socket_path))
        except CannotListen as error:
            lost.append(str(error))

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(to_thread.run_sync, try_to_listen)
    assert len(won) == 1
    assert lost == [f"another process listens on {socket_path}"] * 19
    wire = await connect(socket_path)
    wire.close()
    await to_thread.run_sync(won[0].end)
    assert not socket_path.exists()


@pytest.mark.parametrize("is_there", [True, False])
def test_the_folders_lock_is_waited_for_but_not_for_ever(
    socket_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_there: bool
) -> None:
    if is_there:
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(socket_path))
    before = list(socket_path.parent.iterdir())
    set_limits(monkeypatch, FOLDER_LOCK_SECONDS=0.02)
    folder = os.open(socket_path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        with pytest.raises(CannotListen, match="another process holds the lock of"):
            listen(socket_path)
        assert list(socket_path.parent.iterdir()) == before
    finally:
        os.close(folder)
    listen(socket_path).end()


async def test_another_users_process_is_closed_and_logged(
    socket_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    daemon = Daemon()
    async with listening(daemon, socket_path):
        monkeypatch.setattr(os, "getuid", lambda: 4_000_000)
        wire = await connect(socket_path)
        assert await wire.rest() == b""
        wire.close()
    assert daemon.clients == []
    assert "another user" in caplog.text


@pytest.mark.parametrize(
    ("bounds", "why"),
    [
        (Bounds(connections=2), "the daemon has as many open connections as it may have"),
        (Bounds(connections_per_process=2), "this process has as many connections as it may"),
    ],
)
async def test_one_connection_too_many_is_told_and_closed_and_the_next_is_served_again(
    socket_path: Path, caplog: pytest.LogCaptureFixture, bounds: Bounds, why: str
) -> None:
    daemon = Daemon()
    async with listening(daemon, socket_path, bounds):
        first, second = [await connect(socket_path) for _ in range(2)]
        for wire in (first, second):
            await wire.send_bytes(request(1))
            await wire.message()
        for _ in range(3):
            third = await connect(socket_path)
            refusal = json.loads(await third.rest())
            assert (refusal["id"], refusal["error"]["code"]) == (None, -32001)
            assert refusal["error"]["message"].startswith(why)
            assert refusal["error"]["data"] == {
                "kind": "overloaded",
                "retryable": True,
                "limit": 2,
                "retry_after_ms": RETRY_AFTER_MS,
                "closing": True,
            }
            third.close()
        first.close()
        await quiet()
        fourth = await connect(socket_path)
        await fourth.send_bytes(request(4))
        assert (await fourth.message())["id"] == 4
        for wire in (second, fourth):
            wire.close()
    assert len(daemon.clients) == 3
    assert daemon.byte_budget.connections_refused == 3
    # A client that tries again and again does not fill the log.
    assert caplog.text.count("refused one connection too many") == 1


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ECONNABORTED])
async def test_accepting_survives_a_full_table(
    socket_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    set_limits(monkeypatch, EXHAUSTED_SECONDS=0.0)
    failures = 3
    accept = socket.socket.accept

    class Failing(socket.socket):
        def accept(self) -> tuple[socket.socket, Any]:
            nonlocal failures
            if failures:
                failures -= 1
                raise OSError(code, os.strerror(code))
            return accept(self)

    monkeypatch.setattr(socket, "socket", Failing)
    async with listening(Daemon(), socket_path):
        wire = await connect(socket_path)
        await wire.send_bytes(request(1))
        assert (await wire.message())["id"] == 1
        assert failures == 0
        wire.close()


# -- pipes, files, stdio -----------------------------------------------------------------------


async def test_pipes_carry_a_connection_and_get_their_blocking_mode_back() -> None:
    daemon = Daemon()
    their_read, our_write = os.pipe()
    our_read, their_write = os.pipe()
    kept_read, kept_write = os.dup(our_read), os.dup(our_write)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(daemon.serve, FdPort(our_read, our_write))
            await quiet()
            assert not os.get_blocking(kept_read)
            # More than a pipe holds, both ways.
            data = b"".join(request(n, text="t" * 3000) for n in range(60))
            await to_thread.run_sync(write_all, their_write, data)
            answers = await to_thread.run_sync(read_lines, their_read, 60)
            os.close(their_write)
    assert [json.loads(line)["id"] for line in answers] == list(range(60))
    assert os.get_blocking(kept_read)
    assert os.get_blocking(kept_write)
    for fd in (kept_read, kept_write, their_read):
        os.close(fd)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(our_read)


def write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def read_lines(fd: int, count: int) -> list[bytes]:
    received = b""
    while received.count(b"\n") < count:
        received += os.read(fd, 1 << 16)
    return received.splitlines()


async def test_regular_files_which_no_poll_accepts_carry_a_connection(tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    count = 3 * READ_BYTES // len(request(100))
    source.write_bytes(b"".join(request(n) for n in range(count)))
    daemon = Daemon()
    port = FdPort(
        os.open(source, os.O_RDONLY), os.open(target, os.O_WRONLY | os.O_CREAT, 0o600), "files"
    )
    with anyio.fail_after(30):
        await daemon.serve(port)
    assert [json.loads(line)["id"] for line in target.read_bytes().splitlines()] == list(
        range(count)
    )


PROGRAM = """
import os, subprocess, sys
import anyio
from sessiond.rpc.dispatch import Dispatcher, Method
from sessiond.rpc.params import Params
from sessiond.service.byte_budget import ByteBudget
from sessiond.transports.serving import serve_connection
from sessiond.transports.stdio import serve_stdio

class Client:
    def chunk_begun(self): pass
    def chunk_done(self): pass
    def input_ended(self): pass
    def closed(self): pass

def handle(client, params, call):
    print("a stray print")
    os.write(1, b"a stray write\\n")
    subprocess.run(["cat"])
    subprocess.run(["echo", "a stray child"])
    return {"pong": True}

dispatcher = Dispatcher(
    [Method(name="ping", params=Params, result=None, handle=handle)],
    log_exception=print, allow=lambda client, method: None,
)
async def serve(port):
    await serve_connection(port, dispatcher, lambda connection: Client(), ByteBudget())

anyio.run(serve_stdio, serve, backend=sys.argv[1])
print("after")
"""


async def test_nothing_but_the_protocol_reaches_stdout(anyio_backend: str) -> None:
    ping = b'{"id":%d,"method":"ping"}\n'

    def run() -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-c", PROGRAM, anyio_backend],
            # More than one read between the two, which a child with our stdin would swallow.
            input=ping % 1 + b'{"method":"none"}\n' * (3 * READ_BYTES // 18) + ping % 2,
            capture_output=True,
            check=True,
            timeout=30,
            env={"PYTHONPATH": os.pathsep.join(sys.path), "PATH": os.environ["PATH"]},
        )

    done = await to_thread.run_sync(run)
    assert done.stdout == (
        b'{"jsonrpc":"2.0","id":1,"result":{"pong":true}}\n'
        b'{"jsonrpc":"2.0","id":2,"result":{"pong":true}}\n'
        b"after\n"
    )
    for stray in (b"a stray print", b"a stray write", b"a stray child"):
        assert done.stderr.count(stray) == 2
