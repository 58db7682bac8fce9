"""Eviction of idle sessions, to make room for one more open session.

Law: of the unused sessions the least recently used one is evicted first, when the limit of open
sessions is reached, and when few descriptors are left: connections, lists and copies need some too.
With no session to evict, the caller is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

import anyio

from sessiond.errors import Overloaded
from sessiond.limits import (
    DEFAULT_BOUNDS,
    RETRY_AFTER_MS,
    SESSION_DESCRIPTORS,
    SPARE_DESCRIPTORS,
    SPARE_DESCRIPTORS_PART,
    UNKEPT_PART,
    Bounds,
)
from sessiond.service.actor.actor import SessionActor


class Descriptors(Protocol):
    """The descriptors of the daemon's process."""

    def descriptors_max(self) -> int:
        """Return how many the process may have."""
        ...

    def descriptors_used(self) -> int:
        """Return how many the process has. Raises OSError."""
        ...


class EvictionPolicy:
    """Limits of open sessions; `dismiss` begins to close one, which takes until `released`."""

    def __init__(
        self,
        actors: Mapping[str, SessionActor],
        leaving: Mapping[str, anyio.Event],
        descriptors: Descriptors,
        monotonic: Callable[[], float],
        dismiss: Callable[[SessionActor], None],
    ) -> None:
        self.bounds: Bounds = DEFAULT_BOUNDS
        self._actors = actors
        self._leaving = leaving
        self._descriptors = descriptors
        self._monotonic = monotonic
        self._dismiss = dismiss

    def make(self, *, in_memory: bool = False) -> list[anyio.Event]:
        """Evict idle sessions if there is no room for one more. Raise Overloaded.

        Returns the events to wait for before there are descriptors for it.
        """
        open_now = [actor for actor in self._actors.values() if actor.has_room]
        same = [actor for actor in open_now if actor.counts_as_memory == in_memory]
        limit = self.bounds.memory_sessions if in_memory else self.bounds.open_sessions
        if len(same) >= limit and not self._let_go(1, same):
            raise Overloaded(
                "the limit of open sessions is reached, and all are in use: try again later",
                limit=limit,
                retry_after_ms=RETRY_AFTER_MS,
            )
        return [] if in_memory else self._make_descriptors()

    @property
    def will_have_room(self) -> bool:
        """True if calls use a session that no client keeps: there is room once these calls have ended."""
        return any(
            actor.has_room and not (actor.counts_as_memory or actor.is_kept)
            for actor in self._actors.values()
        )

    def require_room_for_others(self, wanted: SessionActor, *, has_few: bool) -> None:
        """Raise Overloaded where clients hold so many sessions that one more takes the last room.

        A part of the open sessions is for sessions that no client watches, leases, is present in or reads; and
        as much again for connections that hold few sessions (`has_few`).
        """
        if wanted.is_held or wanted.counts_as_memory:
            return
        part = self.bounds.open_sessions // UNKEPT_PART
        limit = self.bounds.open_sessions - part * (1 if has_few else 2)
        if len(self._actors) < limit:
            return
        held = sum(one.is_held and not one.counts_as_memory for one in self._actors.values())
        if held >= limit:
            raise Overloaded(
                "clients watch, lease, are present in or read as many sessions as the daemon keeps open for that:"
                " leave some, or try again later",
                limit=limit,
                retry_after_ms=RETRY_AFTER_MS,
            )

    def unload_idle(self) -> None:
        """Evict every session that was idle for long; a request opens it again."""
        before = self._monotonic() - self.bounds.idle_session_seconds
        for actor in list(self._actors.values()):
            if actor.can_unload and actor.last_used < before:
                self._dismiss(actor)
        self.spare_descriptors()

    def spare_descriptors(self) -> None:
        """Evict idle sessions while few descriptors are left."""
        self._let_go(_sessions(self._missing(0) - self._coming), self._actors.values())

    def _make_descriptors(self) -> list[anyio.Event]:
        missing = self._missing(SESSION_DESCRIPTORS)
        if missing <= 0:
            return []
        still_missing = missing - self._coming
        gone = self._let_go(_sessions(still_missing), self._actors.values())
        if len(gone) < _sessions(still_missing):
            raise Overloaded(
                "the daemon may not open more files, and all open sessions are in use:"
                " raise its limit (ulimit -n)",
                limit=self._descriptors.descriptors_max(),
                retry_after_ms=RETRY_AFTER_MS,
            )
        return [*self._leaving.values()]

    @property
    def _coming(self) -> int:
        """Descriptors of sessions that are being closed."""
        return len(self._leaving) * SESSION_DESCRIPTORS

    def _missing(self, wanted: int) -> int:
        """Return how many descriptors are missing for `wanted` more, and for the reserve."""
        limit, bounds = self._descriptors.descriptors_max(), self.bounds
        all_of_it = bounds.open_sessions * SESSION_DESCRIPTORS + bounds.connections_at_most
        if limit >= all_of_it + SPARE_DESCRIPTORS * SPARE_DESCRIPTORS_PART:
            # The usual case: the limit is high enough to need no count.
            return 0
        opening = sum(actor.has_room and not actor.is_open for actor in self._actors.values())
        used = self._descriptors.descriptors_used() + opening * SESSION_DESCRIPTORS
        return used + wanted + min(SPARE_DESCRIPTORS, limit // SPARE_DESCRIPTORS_PART) - limit

    def _let_go(self, count: int, among: Collection[SessionActor]) -> list[SessionActor]:
        """Evict up to `count` idle sessions, the least recently used ones first."""
        idle = [actor for actor in among if actor.can_unload] if count > 0 else []
        gone = sorted(idle, key=lambda actor: actor.last_used)[:count]
        for actor in gone:
            self._dismiss(actor)
        return gone


def _sessions(descriptors: int) -> int:
    """Return the least number of sessions that hold so many descriptors."""
    return -(-descriptors // SESSION_DESCRIPTORS)
