"""One connection: read a chunk, dispatch all of it, send once.

Rule 1: a chunk is dispatched in order, synchronously, and answered with one send; one of
very many messages in several turns, so that others have theirs.
Rule 2: reading stops while this connection's answers fill its outbox or too many
of its requests wait; it never stops for anyone else.
Rule 3: the end of input cancels nothing: what was asked is answered, then it closes.
What would be lost with the connection need not be waited for (`Client.input_ended`).
Rule 4: whatever breaks here ends this connection only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, Generic, Protocol, TypeVar

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint
from msgspec import Struct

from sessiond.errors import SessiondError, system_error
from sessiond.limits import (
    IN_FLIGHT_BYTES_MAX,
    IN_FLIGHT_MAX,
    OUTBOX_BYTES_MAX,
    TURN_MESSAGES_MAX,
)
from sessiond.model.requests import Reply
from sessiond.rpc.dispatch import Dispatcher
from sessiond.rpc.readers import Item
from sessiond.service.byte_budget import Holdings
from sessiond.transports.base import Port
from sessiond.transports.outbox import Outbox, OutboxStatistics
from sessiond.transports.receiving import Receiving
from sessiond.transports.response_queue import Answers

__all__ = ["ASKED_TO_CLOSE", "CLIENT_CLOSED", "C", "Client", "Connection", "ConnectionStatistics"]


class Client(Protocol):
    """What a connection tells whoever stands for it."""

    def chunk_done(self) -> None:
        """All of one read was dispatched; what could be gathered over it may be done now."""
        ...

    def input_ended(self) -> None:
        """Nothing more is asked. What was is still answered, but need not be waited for long."""
        ...

    def closed(self) -> None:
        """It is over: nothing more comes, nothing more can be sent."""
        ...


C = TypeVar("C", bound=Client)

CLIENT_CLOSED: Final = "the client closed it"
ASKED_TO_CLOSE: Final = "it was asked to close"


class ConnectionStatistics(Struct, frozen=True):
    """How busy a connection is."""

    peer: str
    in_flight: int
    received_bytes: int
    outbox: OutboxStatistics


class Connection(Generic[C]):
    """The service's listener and the dispatcher's peer at one port."""

    def __init__(
        self,
        port: Port,
        tasks: TaskGroup,
        dispatcher: Dispatcher[C],
        make_client: Callable[[Connection[C]], C],
        holdings: Holdings,
    ) -> None:
        self._port = port
        self._tasks = tasks
        self._dispatcher = dispatcher
        self._receiving = Receiving(holdings, self._refuse)
        self._framer = self._receiving.framer
        self._outbox = Outbox(port, self.start, holdings, moved=self._moved, broken=self._abort)
        self._replay_turn: anyio.Lock | None = None
        self.client = make_client(self)
        self._answers = Answers(self._framer, self._outbox, holdings, self._moved)
        self._exchange = dispatcher.connection(self._answers, self.client)
        self._answers.watch(self._exchange.calls)
        self._calls = self._exchange.calls.held
        # Bodies of the last chunk that had to wait for room.
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
        """Who is at the other end."""
        return self._port.peer

    @property
    def encode(self) -> Callable[[bytes], bytes]:
        """Frames a body; one function per framing."""
        return self._framer.frame

    def put(self, frame: bytes) -> None:
        """Queue one frame that must not be dropped."""
        self._outbox.put(frame)

    def offer(self, frames: bytes) -> bool:
        """Queue framed events; False when the outbox is full."""
        return self._outbox.offer(frames)

    def flush(self) -> None:
        """Send what is queued, as far as the socket takes it."""
        self._answers.flush()

    def request(
        self, method: str, params: bytes, settle: Callable[[Reply], None]
    ) -> Callable[[], None]:
        """Ask the client something; what this gives withdraws it."""
        return self._exchange.outgoing.ask(method, params, settle)

    @property
    def replay_turn(self) -> anyio.Lock:
        """Held by the one replay that reads lines for this connection."""
        if self._replay_turn is None:
            self._replay_turn = anyio.Lock()
        return self._replay_turn

    async def wait_room(self) -> None:
        """Until events are welcome again."""
        await self._outbox.wait_room()

    def start(self, function: Callable[..., Awaitable[Any]], *args: object) -> None:
        """Run a function in a task that ends with the connection."""
        if not self._broken:
            self._running += 1
            self._tasks.start_soon(self._guard, function, args)

    def close(self) -> None:
        """Read nothing more, answer what was asked, then close."""
        self._closing = True
        self.end_reason = ASKED_TO_CLOSE
        self._reading.cancel()
        self._moved()

    def statistics(self) -> ConnectionStatistics:
        """How busy it is."""
        return ConnectionStatistics(
            peer=self.peer,
            in_flight=len(self._calls),
            received_bytes=self._received_bytes,
            outbox=self._outbox.statistics(),
        )

    # -- reading -----------------------------------------------------------------------

    async def run(self) -> None:
        """Serve until the end of input, then until everything asked is answered."""
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
        """Take one chunk; False when there is no point in reading on at once."""
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
        """Hand on every body in order; what finds no room becomes the backlog."""
        receive, outbox, answers = self._exchange.receive, self._outbox, self._answers
        calls, table = self._calls, self._exchange.calls
        for place, item in enumerate(items, 1):
            receive(item)
            # `answers.is_full`, word by word: asked after every request, it is worth it.
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
        """Say of a frame that it is not taken."""
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
        """Nothing can be said any more: end everything of this connection at once."""
        if not self._broken:
            self._broken = True
            self.end_reason = reason
            self._tasks.cancel_scope.cancel()

    def end(self) -> None:
        """The last step, whatever led to it."""
        self._outbox.flush()
        self._broken = True
        self._exchange.outgoing.close()
        self._outbox.close()
        self._receiving.close()
        self._answers.close()
        self.client.closed()

    async def _guard(self, function: Callable[..., Awaitable[Any]], args: Iterable[Any]) -> None:
        """A task of this connection; a bug in it is logged and ends the connection."""
        try:
            await function(*args)
        except Exception as error:  # noqa: BLE001  # rule 4
            failed = system_error(error)
            if failed is None:
                name = getattr(function, "__qualname__", "task")
                self._dispatcher.incident(name, error)
                self._abort("a task of it failed")
            else:
                self._abort(f"a system call failed: {failed.strerror}")
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
