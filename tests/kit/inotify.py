"""Watchers of inotify with descriptors of their own.

Law: a test of notices has its descriptors before the test begins. The system gives a user 128 of
them, whatever number of programs runs. A daemon without them polls, by a clock that stands still in
most tests.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sessiond.service.external.folder_notices import InotifyFolders
from sessiond.service.external.inotify import InotifyWatcher
from sessiond.service.external.watcher import PollingWatcher
from tests.kit.patience import soon

__all__ = ["inotify_folders", "inotify_watcher"]

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

    return soon(make)


def inotify_folders() -> InotifyFolders:
    """Return notices with their descriptor; wait while other programs have them all."""
    return soon(_folders)


def _folders() -> InotifyFolders | None:
    folders = InotifyFolders(_ignore)
    folders.begin()
    if not folders.watch(_ANY):
        return None
    folders.end(_ANY)
    return folders


def _ignore(_text: str) -> None:
    """Say nothing: what a descriptor lacks is no subject of the test."""
