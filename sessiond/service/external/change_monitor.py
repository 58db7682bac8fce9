"""Monitor of one open session's file: decides when to look at the file.

Law: a notice sets a flag. Notices of our own appends cost one look at the file's size. If another
file may have the name, the watch is made anew, followed by a look for changes before the new watch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from sessiond.journal.store import SessionLog
from sessiond.service.external.foreign_lines import ForeignLines
from sessiond.service.external.watcher import NO_WATCH, Changed, Watch
from sessiond.service.log.open_session import OpenSession

WatchSession = Callable[[OpenSession, Changed], Watch]
"""Function that tells of each change of an open session by another writer."""


class Follower(Protocol):
    """Reader that takes the lines of foreign writers into the session: the session's writer."""

    @property
    def foreign_lines(self) -> ForeignLines:
        """Foreign lines that the session does not have yet."""
        ...

    async def look(self) -> bool:
        """Take in foreign lines; return whether there were any. Raise Replaced."""
        ...


class ChangeMonitor:
    """Notices about the file since the last look; `wake` is called on each notice."""

    def __init__(self, watch: WatchSession, wake: Callable[[], None]) -> None:
        self._watch_session = watch
        self._wake = wake
        self._watch: Watch = NO_WATCH
        self._watched: SessionLog | None = None
        self._name_changed = False
        self._may_have_grown = False
        self.is_urgent = False
        """True if a read found other lines than were stored: look before any request is served."""

    def turn_to(self, opened: OpenSession) -> None:
        """Monitor the file of this session from now on."""
        self._may_have_grown = True
        self._watch.end()
        self._watched = opened.journal
        if self._watched.blocking:
            self._watch = self._watch_session(opened, self.changed)

    def end(self) -> None:
        """End the watch."""
        self._watch.end()

    def changed(self, name_too: bool) -> None:  # noqa: FBT001 - the signature of `Changed`
        """Note a change of the file."""
        self._name_changed = self._name_changed or name_too
        self._may_have_grown = True
        self._wake()

    def doubt(self) -> None:
        """Note that a read found other lines than were stored."""
        self.is_urgent = True
        self._wake()

    def is_due(self, opened: OpenSession) -> bool:
        """Return whether to look at the file now. Waits for no disk."""
        if self._watched is not opened.journal:
            # The session was in memory and has a file now.
            self.turn_to(opened)
        may_have_grown, self._may_have_grown = self._may_have_grown, False
        # Outside the profile any look may wait for a disk, so a thread finds out.
        grown = may_have_grown and (opened.waits_at != "" or opened.journal.has_grown())
        return self.is_urgent or self._name_changed or grown

    async def look(self, opened: OpenSession, writer: Follower) -> bool:
        """Take in foreign lines; return whether there were any. Raise Replaced."""
        name_changed, was_lost = self._name_changed, writer.foreign_lines.lost
        self._name_changed = self.is_urgent = False
        changed = await writer.look()
        # The next look takes the rest, behind the waiting batches.
        self._may_have_grown = self._may_have_grown or (changed and opened.journal.behind_bytes > 0)
        if (name_changed and not self._watch.looks) or (was_lost and not writer.foreign_lines.lost):
            # Another file may have the name, or a lost file is back: both need a new watch.
            self.turn_to(opened)
            changed = await writer.look() or changed
        return changed
