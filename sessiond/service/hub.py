"""Fan-out: every subscriber of one session gets every entry, in order, once.

A subscription is a cursor over the log, not a queue. A live one is handed the
bytes that were just stored; one whose connection is full is demoted and reads
the log instead, from where it stopped, until it has caught up. So a stuck
reader costs its cursor, and publishing never waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from msgspec import Struct

from sessiond.errors import StorageError
from sessiond.limits import REPLAY_CHUNK_BYTES
from sessiond.model.events import Closed, Lagged, Synced
from sessiond.model.row import Kind, Rules
from sessiond.service.events import Event, event_body, event_prefix, notification, type_word
from sessiond.service.ports import Listener
from sessiond.service.subscription import Subscription, Variant

__all__ = ["Hub", "HubStatistics", "Log"]


class Log(Protocol):
    """The stored entries, as a replay reads them."""

    @property
    def seq(self) -> int:
        """The last durable line."""
        ...

    def span(self, after: int, upto: int, bytes_max: int) -> int:
        """The last seq of a chunk that starts after `after`: one line or more, about `bytes_max`."""
        ...

    async def read_events(self, first: int, last: int) -> list[Event]:
        """The entries of these lines; lines that are no entry are left out."""
        ...


Framed = dict[tuple[Callable[[bytes], bytes], bool, int], bytes]
"""Frames of one publication by framing, bodies and seq: each is made once."""


class HubStatistics(Struct, frozen=True):
    """How busy a hub is."""

    subscribers: int
    replaying: int
    events: int
    frames_encoded: int
    demotions: int


class Hub:
    """The subscriptions of one session."""

    def __init__(self, log: Log, session_id: str, epoch: str, rules: Rules) -> None:
        self._log = log
        self._session_id = session_id
        self._prefix = event_prefix(session_id, epoch)
        self._rules = rules
        self._live: dict[Variant, dict[Subscription, None]] = {}
        self._replaying: dict[Subscription, None] = {}
        self._events = 0
        self._frames = 0
        self._demotions = 0

    def __bool__(self) -> bool:
        return bool(self._live or self._replaying)

    # -- coming and going ----------------------------------------------------

    def add(self, subscription: Subscription, *, replay: bool) -> None:
        """Register; with `replay`, hand over everything after its position first."""
        if replay:
            self._start_replay(subscription)
        else:
            self._go_live(subscription)

    def remove(self, subscription: Subscription) -> None:
        """Forget a subscription; a replay under way ends by itself."""
        subscription.close()
        self._forget(subscription)

    def _forget(self, subscription: Subscription) -> None:
        self._replaying.pop(subscription, None)
        group = self._live.get(subscription.variant)
        if group is not None:
            group.pop(subscription, None)
            if not group:
                del self._live[subscription.variant]

    def listeners(self) -> Iterable[Listener]:
        """Everyone subscribed."""
        for group in self._live.values():
            for subscription in group:
                yield subscription.listener
        for subscription in self._replaying:
            yield subscription.listener

    def _go_live(self, subscription: Subscription) -> None:
        subscription.go_live()
        self._live.setdefault(subscription.variant, {})[subscription] = None

    def _start_replay(self, subscription: Subscription) -> None:
        subscription.live = False
        subscription.watermark = self._log.seq
        self._replaying[subscription] = None
        subscription.listener.start(self._replay, subscription)

    # -- events ----------------------------------------------------------------

    def publish(self, events: Sequence[Event], touched: dict[Listener, None]) -> None:
        """Offer just stored entries to everyone live; never waits, never sends.

        `touched` collects the connections that now have something to send.
        """
        self._events += len(events)
        full: list[Subscription] = []
        framed: Framed = {}
        for variant, group in self._live.items():
            frames = self._frames_for(variant, events, framed)
            if not frames:
                continue
            for subscription in group:
                if subscription.listener.offer(frames):
                    touched[subscription.listener] = None
                else:
                    full.append(subscription)
        for subscription in full:
            self._demote(subscription, events[0].seq - 1)

    def _demote(self, subscription: Subscription, position: int) -> None:
        self._demotions += 1
        self._forget(subscription)
        subscription.position = position
        subscription.lagged = True
        self._start_replay(subscription)

    def _frames_for(self, variant: Variant, events: Sequence[Event], framed: Framed) -> bytes:
        """The frames of the wanted events. `framed` has what other variants are given already."""
        encode, bodies = variant.encode, variant.bodies
        frames: list[bytes] = []
        for event in events:
            if not self._wanted(variant, event):
                continue
            key = (encode, bodies, event.seq)
            frame = framed.get(key)
            if frame is None:
                body = event_body(self._prefix, event, self._rules, bodies=bodies)
                frame = framed[key] = encode(body)
                self._frames += 1
            frames.append(frame)
        return frames[0] if len(frames) == 1 else b"".join(frames)

    def _wanted(self, variant: Variant, event: Event) -> bool:
        row = event.row
        if variant.types is not None and type_word(row.kind, event.wire) not in variant.types:
            return False
        if variant.heads is None:
            return True
        # Records about the session move no head and concern everyone.
        return row.head in variant.heads or row.kind in {Kind.LABEL, Kind.INFO}

    async def _replay(self, subscription: Subscription) -> None:
        try:
            await self._catch_up(subscription)
        except StorageError as error:
            # Never silence: whoever cannot be given the rest is told so.
            if not subscription.closed:
                self.remove(subscription)
                self.tell_closed(subscription, error.kind)

    async def _catch_up(self, subscription: Subscription) -> None:
        synced = False
        if subscription.lagged:
            subscription.lagged = False
            lagged = Lagged(self._session_id, subscription.position, dropped_signals=0)
            body = notification("session/lagged", lagged)
            await self._hand_over(subscription, subscription.variant.encode(body))
        while not subscription.closed:
            if not synced and subscription.position >= subscription.watermark:
                synced = True
                told = Synced(self._session_id, subscription.watermark)
                body = notification("session/synced", told)
                await self._hand_over(subscription, subscription.variant.encode(body))
            elif subscription.position >= self._log.seq:
                # No await since the last look: nothing can be published in between.
                self._replaying.pop(subscription, None)
                self._go_live(subscription)
                return
            else:
                upto = self._log.seq if synced else subscription.watermark
                await self._replay_chunk(subscription, upto)

    async def _replay_chunk(self, subscription: Subscription, upto: int) -> None:
        last = self._log.span(subscription.position, upto, REPLAY_CHUNK_BYTES)
        events = await self._log.read_events(subscription.position + 1, last)
        await self._hand_over(subscription, self._frames_for(subscription.variant, events, {}))
        subscription.advance(last)

    async def _hand_over(self, subscription: Subscription, frames: bytes) -> None:
        """Put frames into the connection's outbox as soon as events are welcome there."""
        listener = subscription.listener
        while frames and not subscription.closed:
            if listener.offer(frames):
                listener.flush()
                return
            await listener.wait_room()

    def close(self) -> list[Subscription]:
        """No more events for anyone; gives everyone who watched."""
        groups = [*self._live.values(), self._replaying]
        watching = [one for group in groups for one in group]
        for subscription in watching:
            self.remove(subscription)
        return watching

    def tell_closed(self, subscription: Subscription, reason: str) -> None:
        """Tell a subscriber that there are no more events, and why."""
        told = notification("session/closed", Closed(self._session_id, reason))
        subscription.listener.put(subscription.variant.encode(told))
        subscription.listener.flush()

    def statistics(self) -> HubStatistics:
        """How busy it is."""
        return HubStatistics(
            subscribers=sum(map(len, self._live.values())) + len(self._replaying),
            replaying=len(self._replaying),
            events=self._events,
            frames_encoded=self._frames,
            demotions=self._demotions,
        )
