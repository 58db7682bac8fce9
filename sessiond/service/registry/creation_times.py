"""Times at which sessions are created: two sessions of one id never have one time.

What is kept apart from a session's file, such as its queue, is found by the id and the time.
"""

from __future__ import annotations

from sessiond.model.times import rfc3339, unix_ms


class CreationTimes:
    """The latest time that each id was given, as long as a session could get that time again."""

    def __init__(self) -> None:
        self._latest: dict[str, int] = {}

    def give(self, session_id: str, now: str) -> str:
        """Return `now`, or the millisecond behind the latest time of this id if that is later."""
        ms = unix_ms(now)
        if ms is None:
            return now
        self._latest = {one: latest for one, latest in self._latest.items() if latest >= ms}
        latest = self._latest.get(session_id)
        self._latest[session_id] = ms if latest is None else latest + 1
        return now if latest is None else rfc3339((latest + 1) / 1000)
