"""Who is present in one session: connections that said so, and in which state they are.

Law: it is told as a whole, never as a change, so whoever missed some knows all again
with the next. Nothing of it is stored; it ends with its connection.
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
    """The connections present in a session, in the order in which they came."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._present: dict[Hashable, Present] = {}

    def __len__(self) -> int:
        return len(self._present)

    def set(self, who: Hashable, present: Present) -> bool:
        """Say how somebody is present; gives whether that is news. Raises Overloaded.

        Who stays in a state keeps the time it began.
        """
        before = self._present.get(who)
        if before is None and len(self._present) >= PRESENT_CLIENTS_MAX:
            raise Overloaded(
                "as many connections are present in this session as may be",
                limit=PRESENT_CLIENTS_MAX,
                retry_after_ms=RETRY_AFTER_MS,
            )
        if before is not None and before.state == present.state:
            present = replace(present, since=before.since)
        self._present[who] = present
        return present != before

    def clear(self, who: Hashable) -> bool:
        """Somebody is no longer present; gives whether they were."""
        return self._present.pop(who, None) is not None

    def clients(self) -> list[Present]:
        """Everybody who is present."""
        return [*self._present.values()]

    def body(self) -> bytes:
        """The notification that tells of everybody."""
        return notification("session/presence", PresenceTold(self._session_id, self.clients()))
