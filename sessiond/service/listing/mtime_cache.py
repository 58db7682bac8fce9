"""Whether a folder or a file is still as it was when it was looked at.

Law: a time tells a change only if it is old enough. What was written a moment ago may be
written again within the same tick of the file system's clock, so it counts as changed
until its time lies behind that tick.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from sessiond.journal.disk.files import Files
from sessiond.limits import SAME_TIME_SECONDS

__all__ = ["Folders", "Look", "is_settled"]

_SECOND_NS: Final = 1_000_000_000
# Some file systems count whole seconds, or two.
_COARSE_SECONDS: Final = 2.0


class Look(NamedTuple):
    """A look at the names in a folder that begins: which folder it was, and when."""

    folder: Path
    mark: tuple[int, int] | None
    """Inode and time; None when there is no such folder."""
    moment: float


class Folders:
    """The folders whose names cannot have changed since they were looked at."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._settled: dict[Path, tuple[int, int]] = {}

    def has_changed(self, folder: Path) -> bool:
        """Whether its names may not be those of the last look."""
        mark = self._settled.get(folder)
        return mark is None or mark != self._mark(folder)

    def look(self, folder: Path) -> Look:
        """To be asked before the names are read: what changes meanwhile is seen next time."""
        return Look(folder, self._mark(folder), self._files.now())

    def looked(self, look: Look) -> None:
        """The names were read."""
        if look.mark is not None and is_settled(look.mark[1], look.moment):
            self._settled[look.folder] = look.mark
        else:
            self._settled.pop(look.folder, None)

    def _mark(self, folder: Path) -> tuple[int, int] | None:
        try:
            found = self._files.stat(folder)
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns


def is_settled(mtime_ns: int, now: float) -> bool:
    """Whether a later change would show in the time; some file systems count whole seconds."""
    step = SAME_TIME_SECONDS if mtime_ns % _SECOND_NS else _COARSE_SECONDS
    return abs(now - mtime_ns / _SECOND_NS) > step
