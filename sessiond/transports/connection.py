"""Connection: reads a chunk, dispatches all of its messages, sends once.

Rule 1: the messages of a chunk are dispatched in order, synchronously, and answered with one send.
A chunk of very many messages takes several turns of the loop, so that other connections get turns.

Rule 2: reading stops while this connection's answers fill its outbox or too many of its requests
wait; reading never stops for another connection's sake.

Rule 3: the end of input cancels nothing: every request is answered, then the connection closes.
Work whose result would be lost with the connection need not be awaited (`Client.input_ended`).

Rule 4: any failure here ends this connection only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint
from msgspec import Struct

from sessiond.errors import SessiondError, exhausted
from sessiond.limits import (
    IN_FLIGHT_BYTES_MAX,
    IN_FLIGHT_MAX,
    OUTBOX_BYTES_MAX,
    RETRY_AFTER_MS,
    TURN_MESSAGES_MAX,
)
from sessiond.model.requests import Reply
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Dispatcher
from sessiond.rpc.readers import Item
from sessiond.service.byte_budget import ByteBudget
from sessiond.transports.base import Port
from sessiond.transports.outbox import Outbox, OutboxStatistics
from sessiond.transports.receiving import Receiving
from sessiond.transports.response_queue import Answers


class Client(Protocol):
    """The service's representative of a connection, notified of its progress."""

    def chunk_begun(self) -> None:
        """Handle the beginning of a chunk: the requests of one read follow, then `chunk_done`."""
        ...

    def chunk_done(self) -> None:
        """Handle the end of a chunk: all its messages are dispatched, gathered work may start."""
        ...

    def input_ended(self) -> None:
        """Handle the end of input: requests are still answered, but not awaited for long."""
        ...

    def closed(self) -> None:
        """Handle the end of the connection: no more bytes come, none can be sent."""
        ...


C = TypeVar("C", bound=Client)

CLIENT_CLOSED: Final = "the client closed the connection"
ASKED_TO_CLOSE: Final = "the daemon closed the connection"


class ConnectionStatistics(Struct, frozen=True):
    """Figures that show how busy a connection is."""

    peer: str
    in_flight: int
    received_bytes: int
    outbox: OutboxStatistics


class Connection(Generic[C]):
    """A connection at one port: the service's listener and the dispatcher's peer."""

    def __init__(
        self,
        port: Port,
        tasks: TaskGroup,
        dispatcher: Dispatcher[C],
        make_client: Callable[[Connection[C]], C],
        budget: ByteBudget,
    ) -> None:
        self._port = port
        self._tasks = tasks
        self._dispatcher = dispatcher
        self._receiving = Receiving(budget, self._refuse)
        self._framer = self._receiving.framer
        self._outbox = Outbox(port, self.start, budget, moved=self._moved, broken=self._abort)
        self._replay_turn: anyio.Lock | None = None
        self.client = make_client(self)
        self._answers = Answers(self._framer, self._outbox, budget, self._moved)
        self._exchange = dispatcher.connection(self._answers, self.client)
        self._answers.watch(self._exchange.calls)
        self._calls = self._exchange.calls.held
        # The service calls these once an event, or once a batch: none of them is a hop.
        self.put: Callable[[bytes], None] = self._outbox.put
        """Queue one frame that must not be dropped."""
        self.offer: Callable[[bytes], bool] = self._outbox.offer
        """Queue framed events; False when the outbox is full."""
        self.deliver: Callable[[bytes], bool] = self._outbox.deliver
        """Queue framed events and send them; False when the outbox is full."""
        self.flush: Callable[[], None] = self._answers.flush
        """Send the queued frames, as far as the socket takes them."""
        self.answer_all: Callable[[Sequence[Call[C]], Sequence[bytes]], None] = (
            self._exchange.calls.answer_all
        )
        """Queue the answers to several requests of this connection in one piece."""
        # Items of the last chunk that wait for room or for the next turn.
        self._backlog: list[Item] = []
        self._input_ended = False
        self._closing = False
        self._broken = False
        self._reading = anyio.CancelScope()
        self._movement: anyio.Event | None = None
        self._running = 0
        self._received_bytes = 0
        self.end_reason = CLIENT_CLOSED

    # -- for the service -------------------------------------------------------------

    @property
    def peer(self) -> str:
        """Description of the other end."""
        return self._port.peer

    @property
    def encode(self) -> Callable[[bytes], bytes]:
        """Function that frames a body; one function per framing."""
        return self._framer.frame

    def request(
        self, method: str, params: bytes, settle: Callable[[Reply], None]
    ) -> Callable[[], None]:
        """Send a request to the client; return the function that withdraws it."""
        return self._exchange.outgoing.ask(method, params, settle)

    @property
    def replay_turn(self) -> anyio.Lock:
        """Lock held by the one replay that reads lines for this connection."""
        if self._replay_turn is None:
            self._replay_turn = anyio.Lock()
        return self._replay_turn

    async def wait_room(self) -> None:
        """Wait until the outbox has room for events again."""
        await self._outbox.wait_room()

    def start(self, function: Callable[..., Awaitable[Any]], *args: object) -> None:
        """Run a function in a task that ends with the connection."""
        if not self._broken:
            self._running += 1
            self._tasks.start_soon(self._guard, function, args)

    def close(self) -> None:
        """Stop reading, answer the requests received so far, then close."""
        self._closing = True
        self.end_reason = ASKED_TO_CLOSE
        self._reading.cancel()
        self._moved()

    def statistics(self) -> ConnectionStatistics:
        """Return how busy the connection is."""
        return ConnectionStatistics(
            peer=self.peer,
            in_flight=len(self._calls),
            received_bytes=self._received_bytes,
            outbox=self._outbox.statistics(),
        )

    # -- reading -----------------------------------------------------------------------

    async def run(self) -> None:
        """Serve until the end of input, then until every request is answered."""
        with self._reading:
            while not self._closing:
                if self._answers.is_full:
                    await self._wait_movement()
                elif self._backlog:
                    await checkpoint()
                    backlog, self._backlog = self._backlog, []
                    self._dispatch(backlog)
                elif self._framer.closing is not None:
                    self.close()
                    self.end_reason = self._framer.closing
                elif self._input_ended:
                    break
                else:
                    await self._port.pump(self._read)
        self._exchange.outgoing.close()
        self.client.input_ended()
        while not self._finished():
            await self._wait_movement()

    def _read(self) -> bool:
        """Receive one chunk; return False when reading on at once is pointless."""
        try:
            data = self._port.recv()
        except OSError as error:
            self._abort(f"the other end is gone: {error.strerror}")
            return False
        if data is None:
            return True
        self._received_bytes += len(data)
        if data:
            self._dispatch(self._receiving.feed(data))
        else:
            self._input_ended = True
            self._dispatch(self._receiving.end())
        return not (
            self._closing
            or self._input_ended
            or self._backlog
            or self._framer.closing is not None
            or self._answers.is_full
        )

    def _dispatch(self, items: list[Item]) -> None:
        """Dispatch every body in order; bodies without room become the backlog."""
        receive, outbox, answers = self._exchange.receive, self._outbox, self._answers
        calls, table = self._calls, self._exchange.calls
        self.client.chunk_begun()
        for place, item in enumerate(items, 1):
            receive(item)
            # `answers.is_full` inlined: the check runs after every request.
            if (
                outbox.answer_bytes >= OUTBOX_BYTES_MAX
                or len(calls) >= IN_FLIGHT_MAX
                or table.body_bytes >= IN_FLIGHT_BYTES_MAX
            ):
                outbox.flush()
                if answers.is_full:
                    self._backlog = items[place:]
                    break
            if place == TURN_MESSAGES_MAX:
                self._backlog = items[place:]
                break
            if self._closing:
                break
        self.client.chunk_done()
        outbox.flush()
        answers.count(self._backlog)

    def _refuse(self, error: SessiondError) -> None:
        """Answer that a frame is refused."""
        self._exchange.receive(error)
        self.flush()

    # -- ending --------------------------------------------------------------------------

    def _finished(self) -> bool:
        if self._calls:
            return False
        if self._closing:
            return self._outbox.answer_bytes == 0
        return self._outbox.pending_bytes == 0 and self._running == 0

    def _abort(self, reason: str) -> None:
        """End all tasks of this connection at once: nothing can be sent any more."""
        if not self._broken:
            self._broken = True
            self.end_reason = reason
            self._tasks.cancel_scope.cancel()

    def end(self) -> None:
        """Release everything the connection holds. Called last, however the connection ended."""
        self._outbox.flush()
        self._broken = True
        self._exchange.outgoing.close()
        self._outbox.close()
        self._receiving.close()
        self._answers.close()
        self.client.closed()

    async def _guard(self, function: Callable[..., Awaitable[Any]], args: Iterable[Any]) -> None:
        """Run a task of this connection; log a bug in the task and end the connection."""
        try:
            await function(*args)
        except Exception as error:  # noqa: BLE001  # rule 4
            short = exhausted(error, RETRY_AFTER_MS)
            if short is None:
                name = getattr(function, "__qualname__", "task")
                self._dispatcher.incident(name, error)
                self._abort("a task of the connection failed")
            else:
                self._abort(short.message)
        finally:
            self._running -= 1
            self._moved()

    def _moved(self) -> None:
        if self._movement is not None:
            self._movement.set()

    async def _wait_movement(self) -> None:
        self._movement = anyio.Event()
        await self._movement.wait()
        self._movement = None
