"""Fan-out: every subscriber of one session gets every entry, in order, once.

A subscription is a cursor over the log, not a queue. A live subscription gets the bytes that were
just stored. If its connection is full it is demoted: it reads the log from where it stopped, until
it has caught up. So a stuck reader costs its cursor, and publishing never waits.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

import anyio
from msgspec import Struct

from sessiond.errors import StorageError
from sessiond.journal.store import ReplacedReason
from sessiond.model.events import Closed, ReadOnlyReason, ReplacedTold
from sessiond.model.row import Rules
from sessiond.service.log.events import Event, notification
from sessiond.service.ports import Listener
from sessiond.service.pubsub.frames import Framed, Frames
from sessiond.service.pubsub.presence import Presence
from sessiond.service.pubsub.replay import Log, Replays, SharedState
from sessiond.service.pubsub.session_status import SessionStatus
from sessiond.service.pubsub.signals import Signals
from sessiond.service.pubsub.subscription import Subscription, Variant


class HubStatistics(Struct, frozen=True):
    """Counters of a hub."""

    subscribers: int
    replaying: int
    events: int
    frames_encoded: int
    demotions: int
    signals: int
    signals_dropped: int
    present: int


class Hub:
    """Subscriptions of one session."""

    def __init__(self, log: Log, session_id: str, epoch: str, rules: Rules) -> None:
        self._log = log
        self._session_id = session_id
        self._frames = Frames(session_id, epoch, rules)
        self.presence = Presence(session_id)
        self.standing = SessionStatus(session_id)
        self._replays = self._new_replays()
        self._live: dict[Variant, dict[Subscription, None]] = {}
        self._replaying: dict[Subscription, None] = {}
        self.signals = Signals(session_id, self.presence, self._live, self._replaying, self._demote)
        self._events = 0
        self._demotions = 0

    def _new_replays(self) -> Replays:
        state = SharedState(self.presence, self.standing)
        return Replays(self._log, self._session_id, self._frames, state, self._caught_up)

    def __bool__(self) -> bool:
        return bool(self._live or self._replaying)

    @property
    def has_live(self) -> bool:
        """True if a subscription takes events as they happen; one in a replay reads them later."""
        return bool(self._live)

    # -- coming and going ----------------------------------------------------

    def add(self, subscription: Subscription, *, replay: bool) -> None:
        """Register a subscription; with `replay`, hand over everything after its position first."""
        if replay:
            self._start_replay(subscription)
        else:
            self._go_live(subscription)
        self.signals.look_who_wants()

    def remove(self, subscription: Subscription) -> None:
        """Forget a subscription and end its replay, if it has one."""
        subscription.close()
        self._forget(subscription)
        self.signals.look_who_wants()

    def _forget(self, subscription: Subscription) -> None:
        self._replaying.pop(subscription, None)
        group = self._live.get(subscription.variant)
        if group is not None:
            group.pop(subscription, None)
            if not group:
                del self._live[subscription.variant]

    def _go_live(self, subscription: Subscription) -> None:
        subscription.go_live()
        self._live.setdefault(subscription.variant, {})[subscription] = None

    def _caught_up(self, subscription: Subscription) -> None:
        del self._replaying[subscription]
        self._go_live(subscription)

    def _start_replay(self, subscription: Subscription) -> None:
        subscription.live = False
        self._replaying[subscription] = None
        subscription.replay = anyio.CancelScope()
        subscription.listener.start(self._replay, subscription, subscription.replay, self._replays)

    def begin_again(self, log: Log, epoch: str, rules: Rules, reason: ReplacedReason) -> None:
        """Tell all subscribers that the file was replaced, and replay it from its first entry."""
        self._replays.end()
        self.presence.forget_streamed()
        self._log = log
        self._frames = Frames(self._session_id, epoch, rules)
        self._replays = self._new_replays()
        told = notification("session/replaced", ReplacedTold(self._session_id, epoch, reason))
        for subscription in self._all():
            self._forget(subscription)
            subscription.begin_again()
            subscription.listener.put(subscription.variant.encode(told))
            self._start_replay(subscription)
            subscription.listener.flush()

    # -- events ----------------------------------------------------------------

    def publish(self, events: Sequence[Event], answered: Container[Listener]) -> None:
        """Hand just stored entries to every live subscription; never waits.

        The connections in `answered` are flushed by the caller, with the answers that follow.
        """
        self._events += len(events)
        full: list[Subscription] = []
        framed: Framed = {}
        for variant, group in self._live.items():
            frames = self._frames.of(variant, events, framed)
            if not frames:
                continue
            for subscription in group:
                listener = subscription.listener
                hand_over = listener.offer if listener in answered else listener.deliver
                if not hand_over(frames):
                    full.append(subscription)
        for subscription in full:
            self._demote(subscription, events[0].seq - 1)

    def tell_standing(
        self,
        *,
        archived: bool,
        read_only: ReadOnlyReason | None,
        touched: dict[Listener, None],
    ) -> None:
        """Tell every subscriber that the session became archived or read-only, or ceased to be.

        A subscriber that replays, or has no room, is told when it has caught up.
        """
        if not self.standing.take(archived=archived, read_only=read_only):
            return
        for subscription in self._replaying:
            subscription.missed_standing = True
        body = self.standing.body()
        live = [one for group in self._live.values() for one in group]
        for subscription in live:
            if subscription.listener.offer(subscription.variant.encode(body)):
                touched[subscription.listener] = None
            else:
                subscription.missed_standing = True
                self._demote(subscription, None)

    def _demote(self, subscription: Subscription, position: int | None) -> None:
        """Let a subscription read the log behind a line; with None, from here on."""
        self._demotions += 1
        self._forget(subscription)
        subscription.position = self._log.seq if position is None else position
        subscription.lagged = True
        self._start_replay(subscription)

    async def _replay(
        self, subscription: Subscription, scope: anyio.CancelScope, replays: Replays
    ) -> None:
        try:
            with scope:
                await replays.catch_up(subscription)
        except StorageError as error:
            # A subscriber that cannot get the rest is told so instead of getting silence.
            if not subscription.closed and not replays.ended:
                self.remove(subscription)
                self.tell_closed(subscription, error.kind)

    def close(self) -> list[Subscription]:
        """Remove all subscriptions; return those that were there."""
        watching = self._all()
        for subscription in watching:
            self.remove(subscription)
        return watching

    def _all(self) -> list[Subscription]:
        groups = [*self._live.values(), self._replaying]
        return [one for group in groups for one in group]

    def tell_closed(self, subscription: Subscription, reason: str) -> None:
        """Tell a subscriber that there are no more events, and why."""
        told = notification("session/closed", Closed(self._session_id, reason))
        subscription.listener.put(subscription.variant.encode(told))
        subscription.listener.flush()

    def statistics(self) -> HubStatistics:
        """Return the counters."""
        return HubStatistics(
            subscribers=sum(map(len, self._live.values())) + len(self._replaying),
            replaying=len(self._replaying),
            events=self._events,
            frames_encoded=self._frames.encoded,
            demotions=self._demotions,
            signals=self.signals.count,
            signals_dropped=self.signals.dropped,
            present=len(self.presence),
        )
