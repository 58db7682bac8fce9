"""Status of a session for its subscribers: archived, read-only.

Law: the status is told as a whole, never as a change, so a subscriber that missed one notification
knows all of it with the next. It is not stored here.
"""

from __future__ import annotations

from typing import Literal

from sessiond.model.events import Changed
from sessiond.service.log.events import notification

__all__ = ["SessionStatus"]


class SessionStatus:
    """Status of one session that forbids or allows changes."""

    __slots__ = ("_session_id", "_state")

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._state = (False, False)

    def take(self, *, archived: bool, read_only: bool) -> bool:
        """Record the current status; return whether it changed."""
        before, self._state = self._state, (archived, read_only)
        return self._state != before

    def body(self) -> bytes:
        """Return the notification of the status."""
        archived, read_only = self._state
        reason: Literal["bad_line"] | None = "bad_line" if read_only else None
        return notification(
            "session/changed", Changed(self._session_id, archived, read_only, reason)
        )
