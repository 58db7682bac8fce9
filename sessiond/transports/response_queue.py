"""Load of one connection: its unread answers, and its requests that wait for one.

Law: answers are bounded by reading no further, so none is dropped. Only a large answer to a
question that can be asked again is refused, when too many bytes wait already.
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
from sessiond.rpc.framing import Framer, frame_all
from sessiond.rpc.readers import Item
from sessiond.service.byte_budget import ByteBudget
from sessiond.transports.outbox import Outbox


class Answers:
    """The dispatcher's peer at a connection: frames the bodies that are put."""

    __slots__ = (
        "_budget",
        "_calls",
        "_counted_bytes",
        "_framer",
        "_moved",
        "_outbox",
        "_put",
        "_unread_bytes",
    )

    def __init__(
        self, framer: Framer, outbox: Outbox, budget: ByteBudget, moved: Callable[[], None]
    ) -> None:
        self._framer = framer
        self._outbox = outbox
        self._put = outbox.put
        self._budget = budget
        self._moved = moved
        self._calls: CallTable[Any] | None = None
        # Bytes of unanswered requests and unread bodies that are counted in the byte budget.
        self._counted_bytes = 0
        self._unread_bytes = 0

    def watch(self, calls: CallTable[Any]) -> None:
        """Set the table of the requests that wait."""
        self._calls = calls

    def put(self, body: bytes) -> None:
        """Queue one answer."""
        self._put(self._framer.frame(body))

    def put_all(self, bodies: Sequence[bytes]) -> None:
        """Queue several answers in one piece."""
        self._put(frame_all(self._framer.frame, bodies))

    def flush(self) -> None:
        """Send the queued frames, as far as the socket takes them."""
        self._outbox.flush()
        self.count()
        self._moved()

    def admits(self, size: int) -> bool:
        """Return whether an answer of `size` bytes to a question may be queued."""
        # The outbox may be full only because nothing tried to send its frames yet.
        self._outbox.flush()
        waiting = self._outbox.answer_bytes
        fits = not waiting or waiting + size <= RESULT_BYTES_MAX
        if fits and self._budget.admits_answer(size):
            return True
        self._budget.answers_refused += 1
        return False

    @property
    def is_full(self) -> bool:
        """Return whether reading must stop until a request is answered or bytes are sent."""
        calls = self._calls
        assert calls is not None, "it watches the calls of its connection"
        return (
            self._outbox.answer_bytes >= OUTBOX_BYTES_MAX
            or len(calls.held) >= IN_FLIGHT_MAX
            or calls.body_bytes >= IN_FLIGHT_BYTES_MAX
        )

    def count(self, unread: Sequence[Item] | None = None) -> None:
        """Update the byte budget by the bodies of waiting requests and the `unread` bodies."""
        if unread is not None:
            self._unread_bytes = _size_of(unread) if unread else 0
        if self._calls is None:
            return
        size = self._calls.body_bytes + self._unread_bytes
        if size != self._counted_bytes:
            self._budget.held_bytes += size - self._counted_bytes
            self._counted_bytes = size

    def close(self) -> None:
        """Stop counting: no answer is read any more, and waiting requests are bounded elsewhere."""
        self._calls = None
        self._budget.held_bytes -= self._counted_bytes
        self._counted_bytes = 0


def _size_of(items: Sequence[Item]) -> int:
    return sum(len(item) for item in items if isinstance(item, bytes))
