"""Replays: the log behind a subscription's cursor, handed over at the speed of its connection.

Law 1: a replay tells where it begins to lag and when it has caught up, and makes the subscription
live in the very step in which nothing is left to tell.
Law 2: lines are read when there is room for them, by one replay of a connection at a time. So a
client that takes nothing costs one cursor per subscription, and no lines.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from sessiond.limits import REPLAY_CHUNK_BYTES
from sessiond.model.events import Lagged, Synced
from sessiond.service.log.events import Event, notification
from sessiond.service.pubsub.frames import Frames
from sessiond.service.pubsub.presence import Presence
from sessiond.service.pubsub.session_status import SessionStatus
from sessiond.service.pubsub.subscription import Subscription


class Log(Protocol):
    """Stored entries as a replay reads them."""

    @property
    def seq(self) -> int:
        """Last durable line."""
        ...

    def span(self, after: int, upto: int, bytes_max: int) -> int:
        """Return the last seq of a chunk after `after`: one line or more, about `bytes_max`."""
        ...

    async def read_events(self, first: int, last: int) -> list[Event]:
        """Return the entries of these lines; lines that are no entry are left out."""
        ...


class SharedState(Struct, frozen=True):
    """State outside the log, told to a subscriber that missed it once it has caught up."""

    presence: Presence
    standing: SessionStatus


class Replays:
    """Replays of one session; `go_live` takes a subscription that has caught up."""

    def __init__(
        self,
        log: Log,
        session_id: str,
        frames: Frames,
        state: SharedState,
        go_live: Callable[[Subscription], None],
    ) -> None:
        self._log = log
        self._session_id = session_id
        self._frames = frames
        self._state = state
        self._go_live = go_live
        self.ended = False

    def end(self) -> None:
        """Stop all replays of this log: another log has taken its place."""
        self.ended = True

    def _is_over(self, subscription: Subscription) -> bool:
        return subscription.closed or self.ended

    async def catch_up(self, subscription: Subscription) -> None:
        """Hand over everything after the cursor, then make the subscription live.

        Ends when the subscription is closed. Raises StorageError.
        """
        while not self._is_over(subscription):
            if subscription.lagged:
                await self._tell_lagged(subscription)
            elif subscription.position < self._log.seq:
                await self._replay_chunk(subscription, self._log.seq)
            elif subscription.listener.offer(self._last_words(subscription)):
                # No await since the last look, so no entry can be published in between: from here
                # on the subscriber gets its events before its answers.
                subscription.dropped_signals = 0
                subscription.missed_presence = subscription.missed_standing = False
                subscription.listener.flush()
                self._go_live(subscription)
                return
            else:
                await subscription.listener.wait_room()

    def _last_words(self, subscription: Subscription) -> bytes:
        """Return the notification of having caught up, with everything missed meanwhile."""
        synced = notification("session/synced", Synced(self._session_id, subscription.position))
        bodies = [synced]
        if subscription.dropped_signals:
            # An empty replay (lagged, synced) tells of the dropped signals.
            bodies += [self._lagged(subscription), synced]
        if subscription.missed_presence:
            bodies.append(self._state.presence.body())
        if subscription.missed_standing:
            bodies.append(self._state.standing.body())
        return b"".join(map(subscription.variant.encode, bodies))

    def _lagged(self, subscription: Subscription) -> bytes:
        position, dropped = subscription.position, subscription.dropped_signals
        return notification("session/lagged", Lagged(self._session_id, position, dropped))

    async def _tell_lagged(self, subscription: Subscription) -> None:
        """Tell where the subscriber fell behind, and how many signals it has missed."""
        listener = subscription.listener
        while not self._is_over(subscription):
            # Wait first: a small frame finds room long before a signal does.
            await listener.wait_room()
            if self._is_over(subscription):
                return
            if listener.offer(subscription.variant.encode(self._lagged(subscription))):
                subscription.lagged = False
                subscription.dropped_signals = 0
                listener.flush()
                return

    async def _replay_chunk(self, subscription: Subscription, upto: int) -> None:
        listener = subscription.listener
        async with listener.replay_turn:
            await listener.wait_room()
            last = self._log.span(subscription.position, upto, REPLAY_CHUNK_BYTES)
            events = await self._log.read_events(subscription.position + 1, last)
            await self._hand_over(subscription, self._frames.of(subscription.variant, events, {}))
        if not self.ended:
            subscription.advance(last)

    async def _hand_over(self, subscription: Subscription, frames: bytes) -> None:
        """Put frames into the connection's outbox as soon as it has room for events."""
        listener = subscription.listener
        while frames and not self._is_over(subscription):
            if listener.offer(frames):
                listener.flush()
                return
            await listener.wait_room()
