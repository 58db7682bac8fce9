"""One connection's cursor over the log of one session, and what it wants to see.

Law: a subscription holds a position and no events, so what a slow reader costs does
not grow. The hub alone moves it.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio
from msgspec import Struct

from sessiond.service.ports import Listener

__all__ = ["Subscription", "Variant"]


class Variant(Struct, frozen=True):
    """What a subscriber wants to see. Subscribers alike in this share their frames."""

    encode: Callable[[bytes], bytes]
    bodies: bool = True
    signals: bool = True
    types: frozenset[str] | None = None
    heads: frozenset[str] | None = None


class Subscription:
    """One connection's cursor. `position` is the last seq handed over while it replays."""

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
        """Since it was last told of them."""
        self.missed_presence = False
        """Somebody came or went, and it could not be told."""
        self.missed_standing = False
        """The session became archived or read-only, or is so no longer, and it could not be told."""
        self.closed = False
        self.replay: anyio.CancelScope | None = None
        """The replay under way, which ends with the subscription wherever it waits."""
        self.on_close: Callable[[], None] | None = None
        """Whoever holds it is told when there will be no more events."""
        self._waiters: list[tuple[int, anyio.Event]] = []

    def advance(self, position: int) -> None:
        """Everything up to `position` was handed over."""
        self.position = position
        if self._waiters:
            self._tell_waiters()

    def go_live(self) -> None:
        """From here on events are handed over as they happen."""
        self.live = True
        self.replay = None
        self._tell_waiters()

    async def reached(self, seq: int) -> None:
        """Until everything up to `seq` was handed over, or there is nobody to hand it to."""
        if self.live or self.closed or self.position >= seq:
            return
        event = anyio.Event()
        self._waiters.append((seq, event))
        await event.wait()

    def begin_again(self) -> None:
        """Nothing of the log as it is now was handed over."""
        if self.replay is not None:
            self.replay.cancel()
        self.position = 0
        self.live = self.lagged = False

    def close(self) -> None:
        """No more events."""
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
