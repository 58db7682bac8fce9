"""Presence in one session: connections that reported a state.

Law: presence is told as a whole, never as a change, so a subscriber that missed a notification
knows everything with the next one. It is stored nowhere and ends with its connection.
"""

from __future__ import annotations

from collections.abc import Hashable

from msgspec.structs import replace

from sessiond.errors import Overloaded
from sessiond.limits import PRESENT_CLIENTS_MAX, RETRY_AFTER_MS
from sessiond.model.events import PresenceTold, Present
from sessiond.service.log.events import notification

__all__ = ["Presence"]


class Presence:
    """Connections present in a session, in the order in which they appeared."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._present: dict[Hashable, Present] = {}

    def __len__(self) -> int:
        return len(self._present)

    def set(self, who: Hashable, present: Present) -> bool:
        """Record a connection's presence; return whether it changed. Raise Overloaded.

        A connection that keeps its state keeps the time at which the state began.
        """
        before = self._present.get(who)
        if before is None and len(self._present) >= PRESENT_CLIENTS_MAX:
            raise Overloaded(
                "this session has reached its limit of present connections: try again later",
                limit=PRESENT_CLIENTS_MAX,
                retry_after_ms=RETRY_AFTER_MS,
            )
        if before is not None and before.state == present.state:
            present = replace(present, since=before.since)
        self._present[who] = present
        return present != before

    def clear(self, who: Hashable) -> bool:
        """End a connection's presence; return whether there was one."""
        return self._present.pop(who, None) is not None

    def clients(self) -> list[Present]:
        """Return the present clients."""
        return [*self._present.values()]

    def body(self) -> bytes:
        """Return the notification of all present clients."""
        return notification("session/presence", PresenceTold(self._session_id, self.clients()))
