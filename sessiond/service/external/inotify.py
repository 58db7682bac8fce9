"""Changes of files as Linux reports them: no wake-up while no file changes.

A watch is on the file, not on its name: it follows a file that is moved. A file that takes its
place is another file, for which the receiver of the notice makes a new watch.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import anyio

from sessiond.journal.disk.files import Files
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
from sessiond.service.external.watcher import Changed, PathOf, PollingWatcher, Watch, Watcher
from sessiond.system import SYSTEM

__all__ = ["InotifyWatcher", "best_watcher"]

_READ_BYTES: Final = 64 * 1024


def best_watcher(files: Files, report: Callable[[str], None]) -> Watcher:
    """Return inotify if the system has it, else polling.

    `report` gets the reason for polling in a few words, once.
    """
    looking = PollingWatcher(files)
    if not SYSTEM.has_inotify:
        return looking
    try:
        return InotifyWatcher(looking, report)
    except OSError as error:
        report(f"session files are polled twice a second: inotify: {error.strerror}")
        return looking


class _Told:
    looks = False

    def __init__(self, inotify: InotifyWatcher, number: int) -> None:
        self._inotify = inotify
        self._number = number

    def end(self) -> None:
        self._inotify.forget(self._number)


class InotifyWatcher:
    """Descriptor that watches all files; files that cannot be watched are polled. Raises OSError."""

    def __init__(self, looking: PollingWatcher, report: Callable[[str], None]) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._call(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self.folders: FolderNotices = InotifyFolders(report)
        self._looking = looking
        self._report = report
        self._full = False
        self._failed = False
        self._told: dict[int, Changed] = {}

    def watch(self, path: PathOf, changed: Changed) -> Watch:
        """Watch a file as `Watcher` says. A missing file, or one over the system's limit, is polled."""
        name = path()
        try:
            if name is None:
                raise FileNotFoundError(errno.ENOENT, "the session has no path")
            mask = MODIFY | ATTRIB | DELETE_SELF | MOVE_SELF
            number = self._call(
                self._libc.inotify_add_watch(self._fd, os.fsencode(name), ctypes.c_uint32(mask))
            )
        except OSError as error:
            if error.errno == errno.ENOSPC and not self._full:
                self._full = True
                self._report(
                    "fs.inotify.max_user_watches files are watched; further session files are polled"
                )
            return self._looking.watch(path, changed)
        self._told[number] = changed
        return _Told(self, number)

    def forget(self, number: int) -> None:
        """End the calls for this watch."""
        if self._told.pop(number, None) is not None:
            # No check of the result: the file may be gone, and the watch with it.
            self._libc.inotify_rm_watch(self._fd, number)

    async def run(self) -> None:
        """Report changes as `Watcher` says. Closes the descriptor in the end."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._looking.run)
                while True:
                    for changed, name_too in await self._next_changes():
                        changed(name_too)
                    # A pause, so that our own appends cost few wake-ups.
                    await anyio.sleep(WATCH_SECONDS)
        finally:
            with suppress(OSError):
                os.close(self._fd)

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
            changed = self._told.get(number)
            if changed is not None:
                masks[changed] = masks.get(changed, 0) | mask
                if mask & IGNORED:
                    # The system may reuse the number for another file.
                    del self._told[number]
        return [(changed, bool(mask & ~MODIFY)) for changed, mask in masks.items()]

    @property
    def _all(self) -> list[tuple[Changed, bool]]:
        return [(changed, True) for changed in self._told.values()]

    @staticmethod
    def _call(result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result
