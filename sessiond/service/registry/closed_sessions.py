"""Memory of closed sessions.

The parts of an open session refer to each other, so only a search for cycles frees their memory. The
interpreter's own searches count new objects, of which even a session of a million entries has few, and come too
late. So sessions are counted here when they are closed.
"""

from __future__ import annotations

import gc

from sessiond.limits import CLOSED_ENTRIES_MAX, CLOSED_SESSION_ENTRIES


class ClosedSessions:
    """The sessions that were closed since the last search for cycles."""

    def __init__(self) -> None:
        self._entries = 0

    def add(self, entries: int) -> bool:
        """Count a session of so many entries; return whether `free` is due."""
        self._entries += entries + CLOSED_SESSION_ENTRIES
        return self._entries > CLOSED_ENTRIES_MAX

    async def free(self) -> None:
        """Free what closed sessions had, if that is still due."""
        if self._entries > CLOSED_ENTRIES_MAX:
            self._entries = 0
            gc.collect()
