"""Eviction of idle sessions, to make room for one more open session.

Law: of the unused sessions the least recently used one is evicted first, when the limit of open
sessions is reached, and when few descriptors are left: connections, lists and copies need some too.
With no session to evict, the caller is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import anyio

from sessiond.errors import Overloaded
from sessiond.journal.disk.files import Files
from sessiond.limits import (
    DEFAULT_BOUNDS,
    RETRY_AFTER_MS,
    SESSION_DESCRIPTORS,
    SPARE_DESCRIPTORS,
    SPARE_DESCRIPTORS_PART,
    Bounds,
)
from sessiond.service.actor.actor import Host

__all__ = ["Room"]


class Room:
    """Limits of open sessions; `dismiss` begins to close one, which takes until `released`."""

    def __init__(
        self,
        hosts: Mapping[str, Host],
        leaving: Mapping[str, anyio.Event],
        files: Files,
        monotonic: Callable[[], float],
        dismiss: Callable[[Host], None],
    ) -> None:
        self.bounds: Bounds = DEFAULT_BOUNDS
        self._hosts = hosts
        self._leaving = leaving
        self._files = files
        self._monotonic = monotonic
        self._dismiss = dismiss

    def make(self, *, in_memory: bool = False) -> list[anyio.Event]:
        """Evict idle sessions if there is no room for one more. Raise Overloaded.

        Returns the events to wait for before there are descriptors for it.
        """
        same = [host for host in self._hosts.values() if host.counts_as_memory == in_memory]
        limit = self.bounds.memory_sessions if in_memory else self.bounds.open_sessions
        if len(same) >= limit and not self._let_go(1, same):
            raise Overloaded(
                "the limit of open sessions is reached, and all are in use: try again later",
                limit=limit,
                retry_after_ms=RETRY_AFTER_MS,
            )
        return [] if in_memory else self._make_descriptors()

    def unload_idle(self) -> None:
        """Evict every session that was idle for long; a request opens it again."""
        before = self._monotonic() - self.bounds.idle_session_seconds
        for host in list(self._hosts.values()):
            if host.can_unload and host.last_used < before:
                self._dismiss(host)
        self.spare_descriptors()

    def spare_descriptors(self) -> None:
        """Evict idle sessions while few descriptors are left."""
        self._let_go(_sessions(self._missing(0) - self._coming), self._hosts.values())

    def _make_descriptors(self) -> list[anyio.Event]:
        missing = self._missing(SESSION_DESCRIPTORS)
        if missing <= 0:
            return []
        still_missing = missing - self._coming
        gone = self._let_go(_sessions(still_missing), self._hosts.values())
        if len(gone) < _sessions(still_missing):
            raise Overloaded(
                "the daemon may not open more files, and all open sessions are in use:"
                " raise its limit (ulimit -n)",
                limit=self._files.descriptors_max(),
                retry_after_ms=RETRY_AFTER_MS,
            )
        return [*self._leaving.values()]

    @property
    def _coming(self) -> int:
        """Descriptors of sessions that are being closed."""
        return len(self._leaving) * SESSION_DESCRIPTORS

    def _missing(self, wanted: int) -> int:
        """Return how many descriptors are missing for `wanted` more, and for the reserve."""
        limit, bounds = self._files.descriptors_max(), self.bounds
        all_of_it = bounds.open_sessions * SESSION_DESCRIPTORS + bounds.connections_at_most
        if limit >= all_of_it + SPARE_DESCRIPTORS * SPARE_DESCRIPTORS_PART:
            # The usual case: the limit is high enough to need no count.
            return 0
        opening = sum(not host.is_open for host in self._hosts.values())
        used = self._files.descriptors_used() + opening * SESSION_DESCRIPTORS
        return used + wanted + min(SPARE_DESCRIPTORS, limit // SPARE_DESCRIPTORS_PART) - limit

    def _let_go(self, count: int, among: Collection[Host]) -> list[Host]:
        """Evict up to `count` idle sessions, the least recently used ones first."""
        idle = [host for host in among if host.can_unload] if count > 0 else []
        gone = sorted(idle, key=lambda host: host.last_used)[:count]
        for host in gone:
            self._dismiss(host)
        return gone


def _sessions(descriptors: int) -> int:
    """Return the least number of sessions that hold so many descriptors."""
    return -(-descriptors // SESSION_DESCRIPTORS)
