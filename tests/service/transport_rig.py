"""A daemon of a few methods behind the real connection code, and its clients."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint
from msgspec import Struct

from sessiond.model.deferred import DEFERRED
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Dispatcher, Method
from sessiond.rpc.params import Params
from sessiond.service.byte_budget import ByteBudget
from sessiond.testing.wire import RawWire
from sessiond.transports.base import Port, SocketPort
from sessiond.transports.connection import Connection
from sessiond.transports.serving import serve_connection
from tests.kit.patience import PATIENCE_SECONDS


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
    with anyio.fail_after(PATIENCE_SECONDS):
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
