"""The steps that move a conversation over its sockets, up to each point where a caller must wait.

Law: nothing here waits. A driver yields what to wait for and the shell (anyio or
threads) does it, so both clients run the same steps. No background task reads for
them: one of the waiting calls leads, does the reading for all, and hands over when
it leaves. A shell runs these functions one at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from math import inf
from typing import Any, Generic, TypeVar

from sessiond_client.calls import Call
from sessiond_client.conversation import Conversation
from sessiond_client.errors import ConnectionLost
from sessiond_client.exchange import Exchange
from sessiond_client.forks import look_for_forks
from sessiond_client.limits import LAST_ANSWERS_SECONDS
from sessiond_client.pages import Pages
from sessiond_client.peer import ForeignSocket
from sessiond_client.reach import Port, Reach, Start
from sessiond_client.steps import Steps, Wait, Waiter
from sessiond_client.stream import Stream

__all__ = ["CallDriver", "Driver", "StreamDriver"]

C = TypeVar("C", bound=Conversation)
S = TypeVar("S", bound=Stream[Any])
W = TypeVar("W", bound=Waiter)


class Driver(Generic[C, W]):
    """One conversation and its present connection."""

    def __init__(self, conversation: C, reach: Reach, waiter: W) -> None:
        self.conversation = conversation
        self.waiter = waiter
        self.is_released = False
        """True once the driver is closed and no caller waits on it."""
        self._reach = reach
        self._port: Port | None = None
        self._waiting: Wait | None = None
        look_for_forks(self)

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """The lock that is held while this driver moves."""
        return self.waiter.lock

    def leave_to_parent(self) -> None:
        """Let go of the connection of the process that this one was forked from, and of its calls."""
        if self.is_released:
            return
        self._reach.leave_to_parent()
        if self._port is not None:
            self._port.close()
        self._port = self._waiting = None
        self.waiter.leave_to_parent()
        self.conversation.leave_to_parent()

    def act(self, change: Callable[[], None]) -> None:
        """Make a change that no caller waits for, and send at once what the change queues."""
        with self.lock:
            change()
            self._push()

    def close(self) -> None:
        """End the conversation; a socket that is being waited on is closed by its waiter."""
        self.waiter.soon(self._close)

    def _close(self) -> None:
        with self.lock:
            if self.conversation.is_closed:
                return
            self.conversation.close()
            if self._waiting is None:
                self._release()
            else:
                self.waiter.interrupt()

    def _until(self, is_done: Callable[[], bool]) -> Generator[Wait, None, None]:
        """Go on until something is done; one caller at a time does so."""
        try:
            while not is_done():
                self._waiting = self._advance()
                if self._waiting is not None and not is_done():
                    yield self._waiting
        finally:
            self._waiting = None

    def _advance(self) -> Wait | None:
        """Do what can be done now; then what to wait for, None if there may be more to do."""
        conversation, now = self.conversation, self.waiter.clock()
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
        """Connect, or go on starting a daemon; then what to wait for. Raises ForeignSocket."""
        try:
            reached = self._reach.go_on(now)
        except OSError as error:
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
            outgoing.taken(count)
        return None

    def _push(self) -> None:
        """Send at once, and tell a leader that waits for less than there is now to wait for."""
        if self._port is not None:
            # A failure needs no care: whoever reads next finds it.
            self._send(self._port)
        if self._waiting is not None:
            wait = self._next_wait()
            if (wait.write and not self._waiting.write) or wait.until < self._waiting.until:
                self.waiter.interrupt()

    def _lose(self, error: Exception) -> None:
        self._hang_up()
        self.conversation.lost(error, self.waiter.clock())

    def _release(self) -> None:
        if not self.is_released:
            self.is_released = True
            self._hang_up()
            self.waiter.release()

    def _hang_up(self) -> None:
        self._reach.close()
        if self._port is not None:
            self._port.close()
            self._port = None


class CallDriver(Driver[Exchange, W]):
    """Many calls on one connection."""

    _leader: Call | None = None

    def leave_to_parent(self) -> None:
        super().leave_to_parent()
        self._leader = None

    def open(self, deadline: float) -> Generator[Wait, None, None]:
        """Make the first connection, or raise `ConnectionLost` when `deadline` is over.

        Raises ForeignSocket at once.
        """
        while self._port is None:
            wait = self._advance()
            if wait is None:
                continue
            # A start that is under way has a bound of its own.
            until = inf if self._reach.is_starting else deadline
            loss = self.conversation.last_loss
            if loss is not None and self.waiter.clock() >= until:
                text = f"cannot connect to sessiond: {loss}"
                raise ConnectionLost(text, outcome_unknown=False) from loss
            yield Wait(wait.on, write=False, until=min(wait.until, until))

    def ask(self, call: Call) -> Steps:
        """Make `call`, by pages if its answer is larger than an answer may be; it is settled when this ends."""
        yield from self.drive(call)
        if not Pages.are_needed(call.error):
            return
        pages = Pages(call.params)
        while pages.params is not None:
            page = call.like(pages.params)
            yield from self.drive(page)
            if page.error is not None:
                call.error = page.error
                return
            pages.take(page.outcome())
        call.result, call.error = pages.whole(), None

    def drive(self, call: Call) -> Steps:
        """Make `call`; it is settled when this ends. Closing it early abandons the call."""
        self.conversation.submit(call)
        try:
            self._push()
            while not call.is_settled:
                if self._leader is None:
                    self._leader = call
                    yield from self._until(lambda: call.is_settled)
                else:
                    yield call  # until another call has read for this one, or hands over
        except ForeignSocket as error:
            # Nothing was sent to that user, but an earlier daemon may have had the call.
            error.outcome_unknown = call.is_outcome_unknown
            raise
        finally:
            self._leave(call)

    def _leave(self, call: Call) -> None:
        if self._leader is call:
            self._leader = None
        self.conversation.abandon(call)
        if self.conversation.outgoing:
            self._push()  # the cancellation of an abandoned call
        if self._leader is not None:
            return
        if self.conversation.is_closed:
            self._release()
        else:
            self._elect()

    def _elect(self) -> None:
        for call in self.conversation.calls.values():
            if call.wake is not None:
                call.wake()
                return


class StreamDriver(Driver[S, W], Generic[S, W]):
    """A stream on a connection of its own, read only as its consumer asks."""

    def start(self) -> Generator[Wait, None, None]:
        """Go on until the daemon has answered the subscription, or the stream is over."""
        return self._drive(lambda: self.conversation.is_started)

    def next(self) -> Generator[Wait, None, None]:
        """Go on until an item is ready, or the stream is over."""
        return self._drive(lambda: bool(self.conversation.ready))

    def finish(self) -> Generator[Wait, None, None]:
        """Go on until what was answered is sent, for a while."""
        until = self.waiter.clock() + LAST_ANSWERS_SECONDS
        outgoing = self.conversation.outgoing
        if self._waiting is not None:
            return  # who waits there sends it
        for wait in self._drive(lambda: not outgoing or self.waiter.clock() >= until):
            yield Wait(wait.on, write=wait.write, until=min(wait.until, until))

    def _drive(self, is_there: Callable[[], bool]) -> Generator[Wait, None, None]:
        if self._waiting is not None:
            raise RuntimeError("somebody else is waiting on this subscription already")
        stream = self.conversation
        try:
            yield from self._until(lambda: is_there() or stream.is_over)
        finally:
            if stream.is_over:
                self._release()
