"""Signals and presence for the subscribers of a session that want them; stored nowhere.

A subscriber without room, or in a replay, misses a signal and is told how many it has missed.
"""

from __future__ import annotations

from collections.abc import Callable

from sessiond.model.events import Departure, Lagged, Synced
from sessiond.service.log.events import notification
from sessiond.service.ports import Listener
from sessiond.service.pubsub.presence import Presence
from sessiond.service.pubsub.subscription import Subscription, Variant


class Signals:
    """Signals of one session, to the subscriptions of its hub."""

    def __init__(
        self,
        session_id: str,
        presence: Presence,
        live: dict[Variant, dict[Subscription, None]],
        replaying: dict[Subscription, None],
        demote: Callable[[Subscription, int | None], None],
    ) -> None:
        """Take the hub's subscriptions.

        `demote` lets a subscription read the log from a line on, or from the end with None.
        """
        self._session_id = session_id
        self._presence = presence
        self._live = live
        self._replaying = replaying
        self._demote = demote
        self.count = 0
        self.dropped = 0
        self.is_wanted = False
        """True if a subscription wants signals. Any thread may look."""

    def look_who_wants(self) -> None:
        """Note whether a subscription wants signals, after one has come or gone."""
        is_wanted = any(variant.signals for variant in self._live)
        self.is_wanted = is_wanted or any(one.variant.signals for one in self._replaying)

    def signal(self, body: bytes, asker: Listener | None, position: int | None = None) -> None:
        """Pass a signal on; a subscriber that replays, or has no room, misses it.

        `position` is the last published line; None says that all lines are published.
        """
        self.count += 1
        for subscription in self._offer(body, asker, position):
            self._count(subscription, 1)

    def miss(self, count: int, position: int) -> None:
        """Tell of signals that are gone, behind the last published line: as a replay of no line."""
        for subscription in self._replaying:
            if subscription.variant.signals:
                self._count(subscription, count)
        bodies = (
            notification("session/lagged", Lagged(self._session_id, position, count)),
            notification("session/synced", Synced(self._session_id, position)),
        )
        wanting = [group for variant, group in self._live.items() if variant.signals]
        for subscription in [one for group in wanting for one in group]:
            told = b"".join(map(subscription.variant.encode, bodies))
            if subscription.listener.offer(told):
                self.dropped += count
                subscription.listener.flush()
            else:
                self._count(subscription, count)
                self._demote(subscription, position)

    def _count(self, subscription: Subscription, count: int) -> None:
        subscription.dropped_signals += count
        self.dropped += count

    def tell_presence(self, asker: Listener | None, left: Departure | None = None) -> None:
        """Send the present clients; a subscriber without room gets them once it has caught up."""
        for subscription in self._offer(self._presence.body(left), asker, None):
            subscription.missed_presence = True

    def hint(self, body: bytes) -> None:
        """Tell the subscribers that want signals and have room now.

        A hint can be asked for, so a subscriber without room is not told later.
        """
        self._offer_live(body, None)

    def _offer(
        self, body: bytes, asker: Listener | None, position: int | None
    ) -> list[Subscription]:
        """Offer a body to the subscribers that want signals; return those that did not get it.

        All receivers are flushed, except the asker, whose answer is flushed with it.
        """
        missed = [one for one in self._replaying if one.variant.signals]
        full = self._offer_live(body, asker)
        for subscription in full:
            # An empty replay: the subscriber is told what it missed as soon as there is room.
            self._demote(subscription, position)
        return missed + full

    def _offer_live(self, body: bytes, asker: Listener | None) -> list[Subscription]:
        """Offer a body to the live subscriptions that want signals; return the full ones."""
        full: list[Subscription] = []
        framed: dict[Callable[[bytes], bytes], bytes] = {}
        for variant, group in self._live.items():
            if not variant.signals:
                continue
            frame = framed.get(variant.encode)
            if frame is None:
                frame = framed[variant.encode] = variant.encode(body)
            for subscription in group:
                if not subscription.listener.offer(frame):
                    full.append(subscription)
                elif subscription.listener is not asker:
                    subscription.listener.flush()
        return full
