"""Receiver of one connection: cuts bytes into bodies, keeps at most one incomplete body.

Law: a small incomplete body is always kept, so ordinary requests get through however full the
daemon is. A large one counts in the byte budget of all connections; without room there it is
refused, and its rest skipped.
"""

from __future__ import annotations

from collections.abc import Callable

from anyio import current_time

from sessiond.errors import Overloaded, SessiondError
from sessiond.limits import READ_BYTES, RETRY_AFTER_MS
from sessiond.rpc.framing import Framer
from sessiond.rpc.readers import Item
from sessiond.service.byte_budget import ByteBudget


class Receiving:
    """The receiving end of one connection; `refuse` tells the sender about a refused frame."""

    __slots__ = ("_budget", "_held", "_is_large", "_refuse", "framer")

    def __init__(self, budget: ByteBudget, refuse: Callable[[SessiondError], None]) -> None:
        self.framer = Framer()
        self._budget = budget
        self._refuse = refuse
        self._held = 0
        self._is_large = False

    def feed(self, data: bytes) -> list[Item]:
        """Return the items that `data` completes, in order: bodies, and errors for a null id."""
        items = self.framer.feed(data)
        held = self.framer.held_bytes
        if held != self._held:
            self._count(held)
            if held > READ_BYTES:
                self._is_large = True
                if not self._budget.grow_half(self, current_time()):
                    self._budget.frames_refused += 1
                    items.append(self._drop())
            elif self._is_large:
                self._end_large()
        return items

    def end(self) -> list[Item]:
        """Return the items that the end of input completes."""
        items = self.framer.end()
        self.close()
        return items

    def give_way(self) -> None:
        """Drop a large incomplete body that has not grown for a while, to make room for another."""
        self._refuse(self._drop())

    def close(self) -> None:
        """Drop the incomplete body from the byte budget: no more bytes come."""
        self._count(0)
        self._end_large()

    def _drop(self) -> Overloaded:
        self.framer.skip()
        self.close()
        return Overloaded(
            "too many bytes wait in this daemon to take so large a frame now; send it again later",
            limit=self._budget.bytes_max,
            retry_after_ms=RETRY_AFTER_MS,
        )

    def _count(self, held: int) -> None:
        self._budget.held_bytes += held - self._held
        self._held = held

    def _end_large(self) -> None:
        if self._is_large:
            self._is_large = False
            self._budget.end_half(self)
