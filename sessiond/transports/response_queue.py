"""What one connection has asked and not read yet: its answers, and the requests that wait for one.

Law: answers are bounded by reading no further, so none is dropped; only a large answer to a
question that can be asked again is refused, when too much waits already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sessiond.limits import (
    IN_FLIGHT_BYTES_MAX,
    IN_FLIGHT_MAX,
    OUTBOX_BYTES_MAX,
    RESULT_BYTES_MAX,
)
from sessiond.rpc.calls import CallTable
from sessiond.rpc.framing import Framer
from sessiond.rpc.readers import Item
from sessiond.service.byte_budget import Holdings
from sessiond.transports.outbox import Outbox

__all__ = ["Answers"]


class Answers:
    """The dispatcher's view of a connection: it puts bodies, which are framed here."""

    __slots__ = (
        "_calls",
        "_counted_bytes",
        "_framer",
        "_holdings",
        "_moved",
        "_outbox",
        "_put",
        "_unread_bytes",
    )

    def __init__(
        self, framer: Framer, outbox: Outbox, holdings: Holdings, moved: Callable[[], None]
    ) -> None:
        self._framer = framer
        self._outbox = outbox
        self._put = outbox.put
        self._holdings = holdings
        self._moved = moved
        self._calls: CallTable[Any] | None = None
        # What of the bodies of requests without an answer is counted among all holdings.
        self._counted_bytes = 0
        self._unread_bytes = 0

    def watch(self, calls: CallTable[Any]) -> None:
        """From now on these are the requests that wait."""
        self._calls = calls

    def put(self, body: bytes) -> None:
        """Queue one answer."""
        self._put(self._framer.frame(body))

    def flush(self) -> None:
        """Send what is queued, as far as the socket takes it."""
        self._outbox.flush()
        self.count()
        self._moved()

    def admits(self, size: int) -> bool:
        """Whether so large an answer to a question may be queued."""
        # Full of what nobody has tried to send yet is not full.
        self._outbox.flush()
        waiting = self._outbox.answer_bytes
        fits = not waiting or waiting + size <= RESULT_BYTES_MAX
        if fits and self._holdings.admits_answer(size):
            return True
        self._holdings.answers_refused += 1
        return False

    @property
    def is_full(self) -> bool:
        """Whether nothing more is to be read until something was answered, or sent."""
        calls = self._calls
        assert calls is not None, "it watches the calls of its connection"
        return (
            self._outbox.answer_bytes >= OUTBOX_BYTES_MAX
            or len(calls.held) >= IN_FLIGHT_MAX
            or calls.body_bytes >= IN_FLIGHT_BYTES_MAX
        )

    def count(self, unread: Sequence[Item] | None = None) -> None:
        """Count the bodies of the requests that wait, and those that nobody has taken yet."""
        if unread is not None:
            self._unread_bytes = _size_of(unread) if unread else 0
        if self._calls is None:
            return
        size = self._calls.body_bytes + self._unread_bytes
        if size != self._counted_bytes:
            self._holdings.held_bytes += size - self._counted_bytes
            self._counted_bytes = size

    def close(self) -> None:
        """Nobody reads answers any more; what still waits is bounded where it waits."""
        self._calls = None
        self._holdings.held_bytes -= self._counted_bytes
        self._counted_bytes = 0


def _size_of(items: Sequence[Item]) -> int:
    return sum(len(item) for item in items if isinstance(item, bytes))
