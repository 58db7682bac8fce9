"""Freshness of folders and files: whether one is unchanged since it was looked at.

Law: a time shows a change only if the time is old enough. A file written a moment ago may be
written again within one tick of the file system's clock, so it counts as changed until its time
lies behind that tick.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from msgspec import Struct

from sessiond.journal.disk.settled import is_settled
from sessiond.service.external.watcher import Looks


class Times(Looks, Protocol):
    """Looks with the clock of their times."""

    def now(self) -> float:
        """Return the clock of the times."""
        ...


class FolderLook(Struct, frozen=True):
    """The start of a look at a folder's names: the folder, its state, and the moment."""

    folder: Path
    mark: tuple[int, int] | None
    """Inode and time; None when there is no such folder."""
    moment: float


class MtimeCache:
    """The folders whose names cannot have changed since they were looked at."""

    def __init__(self, files: Times) -> None:
        self._files = files
        self._settled: dict[Path, tuple[int, int]] = {}

    def has_changed(self, folder: Path) -> bool:
        """Return whether the folder's names may differ from those of the last look."""
        mark = self._settled.get(folder)
        return mark is None or mark != self._mark(folder)

    def look(self, folder: Path) -> FolderLook:
        """Start a look, before the names are read: later changes are seen by the next look."""
        return FolderLook(folder, self._mark(folder), self._files.now())

    def looked(self, look: FolderLook) -> None:
        """Finish a look: the names were read."""
        if look.mark is not None and is_settled(look.mark[1], look.moment):
            self._settled[look.folder] = look.mark
        else:
            self._settled.pop(look.folder, None)

    def forget(self, folder: Path) -> None:
        """Take a folder's names for unknown."""
        self._settled.pop(folder, None)

    def _mark(self, folder: Path) -> tuple[int, int] | None:
        try:
            found = self._files.stat(folder)
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns
