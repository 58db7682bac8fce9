"""The steps that move a conversation over its sockets, up to each point where a caller must wait.

Law: nothing here waits. `drive` yields what to wait for and the shell (anyio or
threads) does it, so both clients run the same steps. No background task reads for
them: one of the waiting calls leads, does the reading for all, and hands over when
it leaves. A shell runs these functions one at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

from sessiond_client.asked import Asked
from sessiond_client.calls import Call
from sessiond_client.conversation import Conversation
from sessiond_client.errors import ConnectionLost
from sessiond_client.exchange import Exchange
from sessiond_client.feed import Feed
from sessiond_client.limits import LAST_ANSWERS_SECONDS
from sessiond_client.offering import Offering
from sessiond_client.port import Port
from sessiond_client.starting import Start
from sessiond_client.steps import Outside, Turn, Wait
from sessiond_client.stream import Stream

__all__ = ["CallDriver", "Driver", "FeedDriver", "OfferDriver", "StreamDriver"]

C = TypeVar("C", bound=Conversation)
S = TypeVar("S", bound=Stream[Any])


class Driver(Generic[C]):
    """One conversation and its present connection."""

    def __init__(self, conversation: C, outside: Outside) -> None:
        self.conversation = conversation
        self._outside = outside
        self._reach = outside.reach()
        self._port: Port | None = None
        self._failure: OSError | None = None
        """The error of the last try to connect."""
        self._waiting: Wait | None = None
        self._is_closed = False
        self._is_released = False

    @property
    def is_released(self) -> bool:
        """True if the driver is closed and no caller waits on it."""
        return self._is_released

    def close(self) -> None:
        """End the conversation; a socket that is being waited on is closed by its waiter."""
        if self._is_closed:
            return
        self._is_closed = True
        self.conversation.close()
        if self._waiting is None:
            self._release()
        else:
            self._outside.waiter.interrupt()

    def _advance(self) -> Wait | None:
        """Do what can be done now; then what to wait for, None if there may be more to do."""
        conversation, now = self.conversation, self._outside.clock()
        conversation.tick(now)
        if self._port is None:
            if now < conversation.connect_at and not self._reach.is_starting:
                until = min(conversation.connect_at, conversation.wake_at())
                return Wait(None, write=False, until=until)
            return self._connect(now)
        failure = self._send(self._port)
        try:
            data = self._port.receive()
        except OSError as error:
            self._lose(error)
            return None
        if data is None:
            if failure is None:
                return self._next_wait()
            self._lose(failure)
        elif not data:
            self._lose(failure or ConnectionResetError("the daemon closed the connection"))
        else:
            # After a failed send too: the answers that came before the end still count.
            conversation.received(data, now)
            if conversation.broken is not None:
                self._lose(conversation.broken)
        return None

    def _next_wait(self) -> Wait:
        conversation = self.conversation
        return Wait(self._port, write=bool(conversation.outgoing), until=conversation.wake_at())

    def _connect(self, now: float) -> Wait | None:
        """Connect, or goes on starting a daemon; then what to wait for."""
        try:
            reached = self._reach.go_on(now)
        except OSError as error:
            self._failure = error
            self.conversation.lost(error, now)
            return None
        if isinstance(reached, Start):
            return Wait(reached, write=False, until=min(reached.until, self.conversation.wake_at()))
        self._port = reached
        self.conversation.connected()
        return None

    def _send(self, port: Port) -> OSError | None:
        outgoing = self.conversation.outgoing
        while outgoing:
            try:
                count = port.send(outgoing.buffers())
            except OSError as error:
                return error
            if count == 0:
                break
            self.conversation.sent(outgoing.taken(count))
        return None

    def _push(self) -> None:
        """Send at once, and tells a leader that waits for less than there is now to wait for."""
        if self._port is not None:
            # A failure needs no care: whoever reads next finds it.
            self._send(self._port)
        if self._waiting is not None:
            wait = self._next_wait()
            if (wait.write and not self._waiting.write) or wait.until < self._waiting.until:
                self._outside.waiter.interrupt()

    def _lose(self, error: Exception) -> None:
        self._hang_up()
        self.conversation.lost(error, self._outside.clock())

    def _release(self) -> None:
        if not self._is_released:
            self._is_released = True
            self._hang_up()
            self._outside.waiter.release()

    def _hang_up(self) -> None:
        self._reach.close()
        if self._port is not None:
            self._port.close()
            self._port = None


class CallDriver(Driver[Exchange]):
    """Many calls on one connection."""

    def __init__(self, exchange: Exchange, outside: Outside) -> None:
        super().__init__(exchange, outside)
        self._leader: Call | None = None

    def open(self, deadline: float) -> Generator[Wait, None, None]:
        """Make the first connection, or raises `ConnectionLost` when `deadline` is over."""
        while self._port is None:
            self._failure = None
            wait = self._advance()
            if self._failure is not None and self._outside.clock() >= deadline:
                text = f"cannot connect to sessiond: {self._failure}"
                raise ConnectionLost(text, outcome_unknown=False) from self._failure
            if wait is not None:
                # A start that is under way has a bound of its own.
                until = wait.until if self._reach.is_starting else min(wait.until, deadline)
                yield Wait(wait.on, write=False, until=until)

    def drive(self, call: Call) -> Generator[Wait | Turn, None, None]:
        """Make `call`; it is settled when this ends. Closing it early abandons the call."""
        self.conversation.submit(call)
        try:
            self._push()
            while not call.is_settled:
                if self._leader is not None and self._leader is not call:
                    yield Turn(call)
                    continue
                self._leader = call
                self._waiting = self._advance()
                if self._waiting is not None and not call.is_settled:
                    yield self._waiting
                self._waiting = None
        finally:
            self._leave(call)

    def _leave(self, call: Call) -> None:
        if self._leader is call:
            self._leader = None
            self._waiting = None
        self.conversation.abandon(call)
        if self.conversation.outgoing:
            self._push()  # the cancellation of an abandoned call
        if self._leader is not None:
            return
        if self._is_closed:
            self._release()
        else:
            self._elect()

    def _elect(self) -> None:
        for call in self.conversation.calls.values():
            if call.wake is not None:
                call.wake()
                return


class StreamDriver(Driver[S]):
    """A stream on a connection of its own, read only as its consumer asks."""

    def start(self) -> Generator[Wait, None, None]:
        """Goes on until the daemon has answered the subscription, or the feed is over."""
        return self._drive(lambda: self.conversation.is_started)

    def next(self) -> Generator[Wait, None, None]:
        """Goes on until an event is ready, or the feed is over."""
        return self._drive(lambda: bool(self.conversation.ready))

    def _drive(self, is_there: Callable[[], bool]) -> Generator[Wait, None, None]:
        if self._waiting is not None:
            raise RuntimeError("somebody else is waiting on this subscription already")
        feed = self.conversation
        try:
            while not is_there() and not feed.is_over:
                self._waiting = self._advance()
                if self._waiting is not None and not is_there() and not feed.is_over:
                    yield self._waiting
        finally:
            self._waiting = None
            if feed.is_over:
                self._is_closed = True
                self._release()


class FeedDriver(StreamDriver[Feed]):
    """The events of a session."""

    def request_flush(self) -> None:
        """Asks for a `Flushed`; it comes in line with the events."""
        self.conversation.flush()
        self._push()


class OfferDriver(StreamDriver[Offering]):
    """The requests of the daemon."""

    def __init__(self, offering: Offering, outside: Outside) -> None:
        super().__init__(offering, outside)
        offering.reply = self._reply

    def finish(self) -> Generator[Wait, None, None]:
        """Goes on until what was answered is sent, for a while."""
        until = self._outside.clock() + LAST_ANSWERS_SECONDS
        outgoing = self.conversation.outgoing
        if self._waiting is not None:
            return  # who waits there sends it
        for wait in self._drive(lambda: not outgoing or self._outside.clock() >= until):
            yield Wait(wait.on, write=wait.write, until=min(wait.until, until))

    def _reply(self, asked: Asked, frame: bytes) -> None:
        with self._outside.waiter.lock:
            self.conversation.put(asked, frame)
            self._push()
