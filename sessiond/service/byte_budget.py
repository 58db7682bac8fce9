"""What all connections together make the daemon keep in memory for them, in bytes.

Rule 1: nobody waits here: who would pass the bound is refused, and what is refused can be
had later (events from the log, questions and large frames by asking again).
Rule 2: events have half of it. What only events fill may stay full for ever, since nobody
closes a client that takes none; answers and frames always have the other half.
Rule 3: half of a large frame that has not grown for a while gives way to who needs the room.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from sessiond.limits import BUFFERED_BYTES_MAX, STUCK_SOCKET_SECONDS

__all__ = ["HalfFrame", "Holdings", "HoldingsStatistics"]


class HalfFrame(Protocol):
    """A large frame of which a part has come."""

    def give_way(self) -> None:
        """Drop the part and `end_half`; its sender is told."""
        ...


class HoldingsStatistics(Struct, frozen=True):
    """How much is kept, and what was refused for want of room."""

    buffered_bytes: int
    large_frames: int
    """That have begun and not ended."""
    frames_refused: int
    answers_refused: int
    connections_refused: int


class Holdings:
    """The sum over all connections. Whoever keeps bytes for one adds them to `held_bytes`."""

    def __init__(self, bytes_max: int = BUFFERED_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.held_bytes = 0
        self.frames_refused = 0
        self.answers_refused = 0
        self.connections_refused = 0
        # The one that has not grown for longest comes first.
        self._halves: dict[HalfFrame, float] = {}

    @property
    def is_full_for_events(self) -> bool:
        """Whether events have to wait in the log."""
        return self.held_bytes * 2 > self.bytes_max

    def admits_answer(self, size: int) -> bool:
        """Whether so large an answer to a question may wait for its asker."""
        return self.held_bytes + size <= self.bytes_max

    def grow_half(self, half: HalfFrame, now: float) -> bool:
        """A large frame has grown, which is counted already; False if there is no room for it."""
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
        """It is whole, or nobody wants it any more."""
        self._halves.pop(half, None)

    def statistics(self) -> HoldingsStatistics:
        """How busy it is."""
        return HoldingsStatistics(
            buffered_bytes=self.held_bytes,
            large_frames=len(self._halves),
            frames_refused=self.frames_refused,
            answers_refused=self.answers_refused,
            connections_refused=self.connections_refused,
        )
