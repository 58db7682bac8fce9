"""Room for one more open session: which idle ones give way to it.

Law: of the sessions that nobody uses the one that was used longest ago gives way first, when as
many are open as may be, and when the process has hardly a descriptor left: connections, lists
and copies need some, too. With nothing left to let go of, whoever asks is refused.
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
    """How many sessions may be open; `dismiss` lets go of one, which takes until `released`."""

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
        """Let go of idle sessions if there is no room for one more. Raises Overloaded.

        Gives what has to be released before there are descriptors for it.
        """
        same = [host for host in self._hosts.values() if host.counts_as_memory == in_memory]
        limit = self.bounds.memory_sessions if in_memory else self.bounds.open_sessions
        if len(same) >= limit and not self._let_go(1, same):
            raise Overloaded(
                "as many sessions are open as may be, and all are in use",
                limit=limit,
                retry_after_ms=RETRY_AFTER_MS,
            )
        return [] if in_memory else self._make_descriptors()

    def unload_idle(self) -> None:
        """Let go of every session that nobody has used for a while; a request opens it again."""
        before = self._monotonic() - self.bounds.idle_session_seconds
        for host in list(self._hosts.values()):
            if host.can_unload and host.last_used < before:
                self._dismiss(host)
        self.spare_descriptors()

    def spare_descriptors(self) -> None:
        """Let go of idle sessions while there are hardly descriptors for anything else."""
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
                " it needs a higher limit (ulimit -n)",
                limit=self._files.descriptors_max(),
                retry_after_ms=RETRY_AFTER_MS,
            )
        return [*self._leaving.values()]

    @property
    def _coming(self) -> int:
        """Descriptors of sessions that are being let go."""
        return len(self._leaving) * SESSION_DESCRIPTORS

    def _missing(self, wanted: int) -> int:
        """How many descriptors there are too few for so many more, and for some to spare."""
        limit, bounds = self._files.descriptors_max(), self.bounds
        all_of_it = bounds.open_sessions * SESSION_DESCRIPTORS + bounds.connections_at_most
        if limit >= all_of_it + SPARE_DESCRIPTORS * SPARE_DESCRIPTORS_PART:
            # As usual: nobody has to count.
            return 0
        opening = sum(not host.is_open for host in self._hosts.values())
        used = self._files.descriptors_used() + opening * SESSION_DESCRIPTORS
        return used + wanted + min(SPARE_DESCRIPTORS, limit // SPARE_DESCRIPTORS_PART) - limit

    def _let_go(self, count: int, among: Collection[Host]) -> list[Host]:
        """Up to so many idle ones, of those that were used longest ago."""
        idle = [host for host in among if host.can_unload] if count > 0 else []
        gone = sorted(idle, key=lambda host: host.last_used)[:count]
        for host in gone:
            self._dismiss(host)
        return gone


def _sessions(descriptors: int) -> int:
    """How many sessions have so many, at least."""
    return -(-descriptors // SESSION_DESCRIPTORS)
