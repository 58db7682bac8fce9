"""Watchers of inotify with descriptors of their own.

Law: a test of notices has its descriptors before the test begins. The system gives a user 128 of
them, whatever number of programs runs. A daemon without them polls, by a clock that stands still in
most tests.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sessiond.service.external.folder_notices import InotifyFolders
from sessiond.service.external.inotify import InotifyWatcher
from sessiond.service.external.watcher import PollingWatcher
from tests.kit.patience import PATIENCE_SECONDS

__all__ = ["inotify_folders", "inotify_watcher"]

T = TypeVar("T")

_TRY_SECONDS = 0.1
_ANY = Path("/")


def inotify_watcher(
    looking: PollingWatcher,
    report: Callable[[str], None] | None = None,
    watched: Callable[[Path], Path] = lambda path: path,
) -> InotifyWatcher:
    """Return a watcher with both of its descriptors; wait while other programs have them all."""

    def make() -> InotifyWatcher | None:
        folders = _folders()
        if folders is None:
            return None
        try:
            watcher = InotifyWatcher(looking, report or _ignore, watched)
        except OSError:
            folders.close()
            return None
        watcher.folders = folders
        return watcher

    return _once_there(make)


def inotify_folders() -> InotifyFolders:
    """Return notices with their descriptor; wait while other programs have them all."""
    return _once_there(_folders)


def _folders() -> InotifyFolders | None:
    folders = InotifyFolders(_ignore)
    folders.begin()
    if not folders.watch(_ANY):
        return None
    folders.end(_ANY)
    return folders


def _once_there(make: Callable[[], T | None]) -> T:
    end = time.monotonic() + PATIENCE_SECONDS
    while (made := make()) is None:
        assert time.monotonic() < end, "other programs have all descriptors of inotify"
        time.sleep(_TRY_SECONDS)
    return made


def _ignore(_text: str) -> None:
    """Say nothing: what a descriptor lacks is no subject of the test."""
