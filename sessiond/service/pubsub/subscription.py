"""Cursor of one connection over the log of one session, and its filter.

Law: a subscription holds a position and no events, so the cost of a slow reader does not grow.
Only the hub moves the position.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio
from msgspec import Struct

from sessiond.service.ports import Listener


class Variant(Struct, frozen=True):
    """Filter and framing of a subscriber. Subscribers with equal variants share their frames."""

    encode: Callable[[bytes], bytes]
    bodies: bool = True
    signals: bool = True
    types: frozenset[str] | None = None
    heads: frozenset[str] | None = None


class Subscription:
    """Cursor of one connection. `position` is the last seq handed over during a replay."""

    __slots__ = (
        "_waiters",
        "closed",
        "dropped_signals",
        "lagged",
        "listener",
        "live",
        "missed_presence",
        "missed_standing",
        "on_close",
        "position",
        "replay",
        "variant",
    )

    def __init__(self, listener: Listener, variant: Variant, position: int) -> None:
        self.listener = listener
        self.variant = variant
        self.position = position
        self.live = False
        self.lagged = False
        self.dropped_signals = 0
        """Number of signals missed since the subscriber was last told of missed ones."""
        self.missed_presence = False
        """True if a change of presence could not be told."""
        self.missed_standing = False
        """True if a change of the session's status (archived, read-only) could not be told."""
        self.closed = False
        self.replay: anyio.CancelScope | None = None
        """Running replay, which ends with the subscription wherever it waits."""
        self.on_close: Callable[[], None] | None = None
        """Function to call when there will be no more events."""
        self._waiters: list[tuple[int, anyio.Event]] = []

    def advance(self, position: int) -> None:
        """Record that everything up to `position` was handed over."""
        self.position = position
        if self._waiters:
            self._tell_waiters()

    def go_live(self) -> None:
        """Hand over events as they happen, from now on."""
        self.live = True
        self.replay = None
        self._tell_waiters()

    async def reached(self, seq: int) -> None:
        """Wait until everything up to `seq` was handed over, or the subscription ended."""
        if self.live or self.closed or self.position >= seq:
            return
        event = anyio.Event()
        self._waiters.append((seq, event))
        await event.wait()

    def begin_again(self) -> None:
        """Go back to the start of a new log."""
        if self.replay is not None:
            self.replay.cancel()
        self.position = 0
        self.live = self.lagged = False

    def close(self) -> None:
        """End the events."""
        self.closed = True
        if self.replay is not None:
            self.replay.cancel()
        self._tell_waiters()
        if self.on_close is not None:
            self.on_close()

    def _tell_waiters(self) -> None:
        left: list[tuple[int, anyio.Event]] = []
        for seq, event in self._waiters:
            if self.live or self.closed or self.position >= seq:
                event.set()
            else:
                left.append((seq, event))
        self._waiters = left
