"""Notes of the sessions that a daemon has open, which spare these sessions from the clean-ups of all daemons.

Law: a session that a clean-up may take is noted before its opening is answered. So an opening of a session
that was written to within OPEN_NOTE_COUNTS_SECONDS costs nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from threading import Lock
from time import monotonic

from sessiond.limits import OPEN_NOTE_COUNTS_SECONDS, OPEN_NOTE_SECONDS
from sessiond.service.database.database import Head, SessionDatabase


class OpenNotes:
    """The notes of one daemon, each of which replaces the one before. Safe in any thread; blocking."""

    def __init__(
        self, database: SessionDatabase, daemon: str, open_numbers: Callable[[], Collection[int]]
    ) -> None:
        """Take what returns the numbers of the open sessions."""
        self._database = database
        self._daemon = daemon
        self._open_numbers = open_numbers
        self._opening: dict[int, float] = {}
        """Sessions that are being opened, and the times on the monotonic clock at which they count no more."""
        self._noted: frozenset[int] = frozenset()
        self._due_at = 0.0
        self._guard = Lock()

    @property
    def _numbers(self) -> frozenset[int]:
        now = monotonic()
        opening = [number for number, until in list(self._opening.items()) if until > now]
        return frozenset(self._open_numbers()).union(opening)

    @property
    def is_empty(self) -> bool:
        """True if the last note names no session."""
        return not self._noted

    @property
    def is_due(self) -> bool:
        """True if the last note is not what is open now, or is to be written again."""
        numbers = self._numbers
        return numbers != self._noted or (bool(numbers) and monotonic() >= self._due_at)

    def write(self) -> None:
        """Show that this daemon is there, and which sessions it has open. Raises StorageError."""
        with self._guard:
            # Without an answer the database may have either note: the next one is due at once. An opening that
            # still sees the last note as valid is among the numbers.
            self._due_at = 0.0
            numbers = self._numbers
            self._database.beat(self._daemon, numbers)
            self._noted, self._due_at = numbers, monotonic() + OPEN_NOTE_SECONDS

    def find(self, session_id: str) -> Head | None:
        """Return the row of a session that is to be opened, and note the session if need be; None without one.

        Raises StorageError.
        """
        head = self._database.find(session_id)
        if head is None or head.now_ns - head.written_ns < OPEN_NOTE_COUNTS_SECONDS * 1e9:
            return head
        now = monotonic()
        # An opening that failed leaves its number here.
        for number in [number for number, until in list(self._opening.items()) if until <= now]:
            self._opening.pop(number, None)
        # A note that is written before the opening ends has the session, too.
        self._opening[head.number] = now + OPEN_NOTE_COUNTS_SECONDS
        if head.number in self._noted and now < self._due_at:
            return head
        self.write()
        # A clean-up may have come right before the note.
        return self._database.find(session_id)

    def opened(self, number: int) -> None:
        """Take note that a session is among those that are open."""
        self._opening.pop(number, None)
