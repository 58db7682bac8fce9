"""Bytes that all connections together make the daemon keep in memory.

Rule 1: no caller waits here: a request over the bound is refused, and what is refused can be had
later (events from the log, answers and large frames by another request).
Rule 2: events may use half of the bound. That half may stay full for ever, since a client that
takes no events is not closed; answers and frames always have the other half.
Rule 3: a large frame that has not grown for a while gives way to one that needs the room.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from sessiond.limits import BUFFERED_BYTES_MAX, STUCK_SOCKET_SECONDS


class HalfFrame(Protocol):
    """Large frame of which a part has come."""

    def give_way(self) -> None:
        """Drop the part and call `end_half`; the sender is told."""
        ...


class HoldingsStatistics(Struct, frozen=True):
    """Bytes kept, and what was refused for lack of room."""

    buffered_bytes: int
    large_frames: int
    """Large frames that have begun and not ended."""
    frames_refused: int
    answers_refused: int
    connections_refused: int


class ByteBudget:
    """Sum over all connections. Each holder of bytes adds them to `held_bytes`."""

    def __init__(self, bytes_max: int = BUFFERED_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.held_bytes = 0
        self.frames_refused = 0
        self.answers_refused = 0
        self.connections_refused = 0
        # In order of growth: the frame that has not grown for longest comes first.
        self._halves: dict[HalfFrame, float] = {}

    @property
    def is_full_for_events(self) -> bool:
        """True if events have to wait in the log."""
        return self.held_bytes * 2 > self.bytes_max

    def admits_answer(self, size: int) -> bool:
        """Return whether an answer of this size may wait for its client."""
        return self.held_bytes + size <= self.bytes_max

    def grow_half(self, half: HalfFrame, now: float) -> bool:
        """Note that a large frame, whose bytes are counted already, has grown.

        Returns False if there is no room for it.
        """
        self._halves.pop(half, None)
        self._halves[half] = now
        while self.held_bytes > self.bytes_max:
            stalest, since = next(iter(self._halves.items()))
            if now - since < STUCK_SOCKET_SECONDS:
                return False
            self.frames_refused += 1
            stalest.give_way()
        return True

    def end_half(self, half: HalfFrame) -> None:
        """Forget a large frame that is complete or dropped."""
        self._halves.pop(half, None)

    def statistics(self) -> HoldingsStatistics:
        """Return the counters."""
        return HoldingsStatistics(
            buffered_bytes=self.held_bytes,
            large_frames=len(self._halves),
            frames_refused=self.frames_refused,
            answers_refused=self.answers_refused,
            connections_refused=self.connections_refused,
        )
