"""Whether one open session's file has to be looked at.

Law: being told costs a flag; that our own appends are told too costs a look at the size.
Where the name may have another file, the watch is made anew, and what happened before it
was is looked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from sessiond.journal.store import SessionLog
from sessiond.service.external.foreign_lines import Others
from sessiond.service.external.watcher import NO_WATCH, Watch, Watching
from sessiond.service.log.open_session import Opened

__all__ = ["Attention", "Follower"]


class Follower(Protocol):
    """What takes the lines of foreign writers into the session: the session's writer."""

    @property
    def others(self) -> Others:
        """Return what foreign writers have appended and the session does not have yet."""
        ...

    async def look(self) -> bool:
        """Take in what foreign writers appended; return whether they did. Raises Replaced."""
        ...


class Attention:
    """What was told of the file since the last look; `wake` is called when there is something."""

    def __init__(self, watching: Watching, wake: Callable[[], None]) -> None:
        self._watching = watching
        self._wake = wake
        self._watch: Watch = NO_WATCH
        self._watched: SessionLog | None = None
        self._name_changed = False
        self._may_have_grown = False
        self.is_urgent = False
        """A read found other lines than were stored: look before anything else is served."""

    def turn_to(self, opened: Opened) -> None:
        """From here on it is about the file of this session."""
        self._may_have_grown = True
        self._watch.end()
        self._watched = opened.journal
        if self._watched.blocking:
            self._watch = self._watching.watch(lambda: opened.path, self.changed)

    def end(self) -> None:
        """No more."""
        self._watch.end()

    def changed(self, name_too: bool) -> None:  # noqa: FBT001 - what `Changed` is called with
        """Something happened to the file."""
        self._name_changed = self._name_changed or name_too
        self._may_have_grown = True
        self._wake()

    def doubt(self) -> None:
        """A read found other lines than were stored."""
        self.is_urgent = True
        self._wake()

    def is_due(self, opened: Opened, writer: Follower) -> bool:
        """Whether to look now. Waits for no disk."""
        if self._watched is not opened.journal:
            # It came to be a file.
            self.turn_to(opened)
        may_have_grown, self._may_have_grown = self._may_have_grown, False
        grown = may_have_grown and opened.journal.has_grown()
        return self.is_urgent or self._name_changed or grown or writer.others.half_due_in <= 0

    async def look(self, opened: Opened, writer: Follower) -> bool:
        """Take in what others wrote; gives whether there was anything. Raises Replaced."""
        name_changed, was_lost = self._name_changed, writer.others.lost
        self._name_changed = self.is_urgent = False
        changed = await writer.look()
        # The rest of it comes next, behind the batches that wait.
        self._may_have_grown = self._may_have_grown or (changed and opened.journal.behind_bytes > 0)
        if (name_changed and not self._watch.looks) or (was_lost and not writer.others.lost):
            # Another file may have the name; one that is back can be told of again.
            self.turn_to(opened)
            changed = await writer.look() or changed
        return changed
