"""Changes of files as Linux reports them: no wake-up while no file changes.

A watch is on the file, not on its name: it follows a file that is moved. A file that takes its
place is another file, for which the receiver of the notice makes a new watch. Sessions of one database
have one watch of the system, on the folder of the database.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio

from sessiond.limits import WATCH_POLL_SECONDS, WATCH_SECONDS
from sessiond.service.external.folder_notices import FolderNotices, InotifyFolders
from sessiond.service.external.inotify_events import (
    ATTRIB,
    DELETE_SELF,
    IGNORED,
    MODIFY,
    MOVE_SELF,
    OVERFLOW,
    events_in,
)
from sessiond.service.external.watcher import (
    Changed,
    Looks,
    PathOf,
    PollingWatcher,
    Watch,
    Watcher,
)
from sessiond.system import SYSTEM

_READ_BYTES: Final = 64 * 1024


Watched = Callable[[Path], Path]
"""Returns the file or folder whose changes tell of changes of the session at a path."""


def _itself(path: Path) -> Path:
    return path


def best_watcher(
    paths: Looks, report: Callable[[str], None], watched: Watched = _itself
) -> Watcher:
    """Return inotify if the system has it, else polling.

    `report` gets the reason for polling in a few words, once.
    """
    looking = PollingWatcher(paths)
    if not SYSTEM.has_inotify:
        return looking
    try:
        return InotifyWatcher(looking, report, watched)
    except OSError as error:
        report(f"session files are polled twice a second: inotify: {error.strerror}")
        return looking


class _Told:
    looks = False

    def __init__(self, inotify: InotifyWatcher, number: int) -> None:
        self._inotify = inotify
        self._number = number

    def end(self) -> None:
        self._inotify.forget(self._number, self)


class InotifyWatcher:
    """Descriptor that watches all files; files that cannot be watched are polled. Raises OSError."""

    def __init__(
        self,
        looking: PollingWatcher,
        report: Callable[[str], None],
        watched: Watched = _itself,
    ) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._call(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self.folders: FolderNotices = InotifyFolders(report)
        self._looking = looking
        self._report = report
        self._full = False
        self._failed = False
        self._watched = watched
        # The watches of the system, each with its receivers.
        self._told: dict[int, dict[_Told, Changed]] = {}

    def watch(self, path: PathOf, changed: Changed) -> Watch:
        """Watch a file as `Watcher` says.

        A missing file is polled, and one over the system's limit or whose changes the system does not report.
        """
        name = path()
        try:
            if name is None:
                raise FileNotFoundError(errno.ENOENT, "the session has no path")
            if not SYSTEM.is_local(self._watched(name)):
                return self._looking.watch(path, changed)
            mask = MODIFY | ATTRIB | DELETE_SELF | MOVE_SELF
            number = self._call(
                self._libc.inotify_add_watch(
                    self._fd, os.fsencode(self._watched(name)), ctypes.c_uint32(mask)
                )
            )
        except OSError as error:
            if error.errno == errno.ENOSPC and not self._full:
                self._full = True
                self._report(
                    "fs.inotify.max_user_watches files are watched; further session files are polled"
                )
            return self._looking.watch(path, changed)
        told = _Told(self, number)
        self._told.setdefault(number, {})[told] = changed
        return told

    def forget(self, number: int, told: _Told) -> None:
        """End the calls for this watch."""
        receivers = self._told.get(number, {})
        if receivers.pop(told, None) is not None and not receivers:
            del self._told[number]
            # No check of the result: the file may be gone, and the watch with it.
            self._libc.inotify_rm_watch(self._fd, number)

    async def run(self) -> None:
        """Report changes as `Watcher` says."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._looking.run)
                while True:
                    for changed, name_too in await self._next_changes():
                        changed(name_too)
                    # A pause, so that our own appends cost few wake-ups.
                    await anyio.sleep(WATCH_SECONDS)
        finally:
            self.close()

    def close(self) -> None:
        """Close the descriptors. Safe to repeat."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with suppress(OSError):
                os.close(fd)
        self.folders.close()

    async def _next_changes(self) -> list[tuple[Changed, bool]]:
        """Wait for changes. While inotify fails every file counts as changed."""
        try:
            await anyio.wait_readable(self._fd)
            return self._changes()
        except OSError as error:
            if not self._failed:
                self._failed = True
                self._report(
                    f"changes of session files are not reported: inotify: {error.strerror}"
                )
            await anyio.sleep(WATCH_POLL_SECONDS)
            with suppress(OSError):
                # Unread events would wake the loop again and again.
                self._changes()
            return self._all

    def _changes(self) -> list[tuple[Changed, bool]]:
        """Return the receivers of the pending events, and whether more than bytes changed."""
        try:
            data = os.read(self._fd, _READ_BYTES)
        except BlockingIOError:
            return []
        masks: dict[Changed, int] = {}
        for number, mask, _name in events_in(data):
            if mask & OVERFLOW:
                # Events were lost: every file may have changed.
                return self._all
            for changed in self._told.get(number, {}).values():
                masks[changed] = masks.get(changed, 0) | mask
            if mask & IGNORED:
                # The system may reuse the number for another file.
                self._told.pop(number, None)
        return [(changed, bool(mask & ~MODIFY)) for changed, mask in masks.items()]

    @property
    def _all(self) -> list[tuple[Changed, bool]]:
        return [(changed, True) for each in self._told.values() for changed in each.values()]

    @staticmethod
    def _call(result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result
