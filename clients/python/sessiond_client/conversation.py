"""The common core of calls and subscriptions: one conversation, kept over many connections.

Rule 1: nothing here waits, reads a clock or touches a socket; time comes in as `now`.
Rule 2: a connection is one life: `connected`, any number of `received`, then `lost`.
The driver does what `connect_at`, `outgoing`, `broken` and `wake_at` say.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

from msgspec import UNSET, Raw, Struct

from sessiond_client import wire
from sessiond_client.errors import ConnectionLost, ProtocolViolation, RpcError, SessiondClientError
from sessiond_client.limits import BACKOFF_FIRST, BACKOFF_LONGEST
from sessiond_client.versions import Introduction

__all__ = ["Conversation", "Setup", "backoff", "retry_after"]

_HELLO_ID = 0


class Setup(Struct, frozen=True):
    """Settings that all connections of one client have in common."""

    hello: Mapping[str, object] | None
    """The params of `initialize`, sent first on each connection; None = it is not sent."""
    random: Callable[[], float]
    """A number from 0 up to 1: spreads the clients that lost one daemon together."""
    introduction: Introduction | None = None
    """Takes what the daemon answers to `initialize`."""


def backoff(attempt: int, random: Callable[[], float]) -> float:
    """Return the seconds to wait before `attempt` (the first is 1): doubled, capped, jittered by half."""
    longest = min(BACKOFF_LONGEST, BACKOFF_FIRST * 2.0 ** min(attempt - 1, 16))
    return longest * (0.5 + 0.5 * random())


class Conversation(ABC):
    """One side of a connection that is made again whenever it breaks."""

    def __init__(self, setup: Setup) -> None:
        self.outgoing = wire.Outgoing()
        self.connect_at = 0.0
        self.is_connected = False
        self.is_closed = False
        self.broken: SessiondClientError | None = None
        """Set when this connection is of no more use: close it and say `lost`."""
        self.last_loss: Exception | None = None
        self._setup = setup
        self._lines = wire.LineBuffer()
        self._failed_attempts = 0
        self._is_heard = False
        self._is_turned_away = False
        """The daemon took nothing of what was sent on this connection: it was one too many."""
        self._retry_after = 0.0
        self._now = 0.0
        """Time at which the bytes came that are being read."""

    def connected(self) -> None:
        """Begin a new connection: queue what has to be said on it."""
        self._lines = wire.LineBuffer()
        self.is_connected = True
        if self._setup.hello is not None:
            self.outgoing.put(wire.request(_HELLO_ID, "initialize", self._setup.hello))
        self._begin()

    def received(self, data: bytes, now: float) -> None:
        """Take bytes that came; what they complete is settled before this returns."""
        self._now = now
        try:
            for line in self._lines.feed(data):
                self._message(wire.decode(line))
        except ProtocolViolation as error:
            self.broken = self.broken or error

    def lost(self, error: Exception, now: float) -> None:
        """Note that the connection is gone, or could not be made."""
        # A daemon that is full accepts and closes at once: only a connection
        # on which something was said, and nothing refused, ends the backoff.
        was_useful = self._is_heard and self.broken is None
        self._failed_attempts = 1 if was_useful else self._failed_attempts + 1
        delay = backoff(self._failed_attempts, self._setup.random)
        self.connect_at = now + max(delay, self._retry_after)
        self.last_loss = error
        self.is_connected = False
        self._is_heard = False
        self._retry_after = 0.0
        self.broken = None
        self.outgoing.clear()
        self._lost()
        self._is_turned_away = False

    def leave_to_parent(self) -> None:
        """Begin anew in a process that was forked: the connection, and what waits on it, is the parent's."""
        text = "the connection is that of the process which this one was forked from"
        self.lost(ConnectionLost(text, outcome_unknown=True), 0.0)
        self.connect_at = 0.0

    def close(self) -> None:
        """End the conversation: every waiting caller is told."""
        self.is_closed = True

    @abstractmethod
    def tick(self, now: float) -> None:
        """End and start what is due."""

    @abstractmethod
    def wake_at(self) -> float:
        """Return the time at which `tick` has work; infinity if never."""

    @abstractmethod
    def _answer(self, call_id: int, answer: Raw | RpcError) -> None:
        """One of our requests was answered."""

    @abstractmethod
    def _notification(self, method: str, params: Raw) -> None:
        """Take a notification of the daemon."""

    @abstractmethod
    def _refused(self, error: RpcError) -> None:
        """Take the daemon's refusal: `initialize` failed for good."""

    def _asked(self, request_id: int | str | None, method: str, params: Raw) -> None:  # noqa: ARG002
        """Take a request of the daemon. Nothing was offered on most connections."""
        self.outgoing.put(wire.refusal(request_id))

    def _begin(self) -> None:
        """Queue the requests of a new connection."""
        return

    def _heard(self) -> None:
        """Note the daemon's first message on this connection."""
        return

    def _lost(self) -> None:
        """Forget the requests of the connection: no answer to them comes any more."""
        return

    def _message(self, message: wire.Incoming) -> None:
        if not self._is_heard:
            self._is_heard = True
            self._heard()
        if message.method is not UNSET:
            if message.id is UNSET:
                self._notification(message.method, message.params)
            else:
                self._asked(message.id, message.method, message.params)
            return
        answer = _answer_of(message)
        if isinstance(message.id, int):
            if message.id == _HELLO_ID:
                self._greeted(answer)
            else:
                self._answer(message.id, answer)
            return
        # An answer to nobody: the daemon could not tell which of our frames it
        # failed to read, so no request of this connection can be trusted to be answered.
        if isinstance(answer, RpcError) and answer.retryable:
            self._is_turned_away = answer.data.get("closing") is True
            self._hang_up(answer)
            return
        raise ProtocolViolation(f"an answer without an id of ours: {answer!r}")

    def _greeted(self, answer: Raw | RpcError) -> None:
        if isinstance(answer, RpcError):
            self._hang_up(answer)
            if not answer.retryable:
                self._refused(answer)
        elif self._setup.introduction is not None:
            self._setup.introduction.met(answer)

    def _hang_up(self, error: RpcError) -> None:
        """Give up the connection; the next one is made when the daemon wants it, not earlier."""
        self.broken = error
        self._retry_after = retry_after(error)


def retry_after(error: RpcError) -> float:
    """Return the seconds that the daemon asks to wait; 0 if it names none."""
    after_ms = error.data.get("retry_after_ms")
    seconds: float = after_ms / 1000 if isinstance(after_ms, int | float) else 0.0
    return seconds


def _answer_of(message: wire.Incoming) -> Raw | RpcError:
    if message.error is not UNSET:
        return wire.rpc_error(message.error)
    if message.result is not UNSET:
        return message.result
    raise ProtocolViolation("a message with neither method, result nor error")
