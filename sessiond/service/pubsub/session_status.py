"""Status of a session for its subscribers: archived, read-only.

Law: the status is told as a whole, never as a change, so a subscriber that missed one notification
knows all of it with the next. It is not stored here.
"""

from __future__ import annotations

from sessiond.model.events import Changed, ReadOnlyReason
from sessiond.service.log.events import notification


class SessionStatus:
    """Status of one session that forbids or allows changes."""

    __slots__ = ("_session_id", "_state")

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._state: tuple[bool, ReadOnlyReason | None] = (False, None)

    def take(self, *, archived: bool, read_only: ReadOnlyReason | None) -> bool:
        """Record the current status; return whether it changed."""
        before = self._state
        self._state = (archived, read_only)
        return self._state != before

    def body(self) -> bytes:
        """Return the notification of the status."""
        archived, reason = self._state
        told = Changed(self._session_id, archived, reason is not None, reason)
        return notification("session/changed", told)
