"""Notices of changes in folders: which names of a folder may stand for something else now.

    notices.watch(folder)               True if every later change of the folder will be told
    notices.take()                      the names that changed since the last call

Law: what `watch` accepted is told without a gap: a change that happened before `take` is called is in
its answer. A folder for which a notice may be lost is told as a whole.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

import anyio

from sessiond.limits import WATCH_SECONDS
from sessiond.service.external.inotify_events import (
    ATTRIB,
    CREATE,
    DELETE,
    DELETE_SELF,
    IGNORED,
    MODIFY,
    MOVE_SELF,
    MOVED_FROM,
    MOVED_TO,
    ONLYDIR,
    OVERFLOW,
    UNMOUNT,
    events_in,
)
from sessiond.system import SYSTEM

Told = dict[Path, set[str] | None]
"""The changed names of each folder; None if every name of the folder may have changed."""

_LOST: Final = DELETE_SELF | MOVE_SELF | UNMOUNT | IGNORED
_MASK: Final = (
    MODIFY | ATTRIB | MOVED_FROM | MOVED_TO | CREATE | DELETE | DELETE_SELF | MOVE_SELF
) | ONLYDIR
_READ_BYTES: Final = 256 * 1024


class FolderNotices(Protocol):
    """Source of notices about folders. Only `begin` and `run` belong to the loop."""

    def begin(self) -> None:
        """Make ready for `watch`. Safe to repeat."""
        ...

    def watch(self, folder: Path) -> bool:
        """Return whether the changes of a folder are told from now on."""
        ...

    def covers(self, folder: Path) -> bool:
        """Return whether the changes of a folder are told."""
        ...

    def end(self, folder: Path) -> None:
        """End the notices about a folder. Safe to repeat."""
        ...

    def has_any(self) -> bool:
        """Return whether `take` would return a change."""
        ...

    def take(self) -> Told:
        """Return the changes since the last call."""
        ...

    async def run(self, wake: Callable[[], None]) -> None:
        """Call `wake` on the loop after changes, until cancelled."""
        ...

    def close(self) -> None:
        """Give back what the system gave. Safe to repeat."""
        ...


class _None:
    def begin(self) -> None:
        """Do nothing."""

    def watch(self, folder: Path) -> bool:  # noqa: ARG002 - no folder is watched
        return False

    def covers(self, folder: Path) -> bool:  # noqa: ARG002
        return False

    def end(self, folder: Path) -> None:
        """Do nothing."""

    def has_any(self) -> bool:
        return False

    def take(self) -> Told:
        return {}

    async def run(self, wake: Callable[[], None]) -> None:
        """Return at once."""

    def close(self) -> None:
        """Do nothing: the system gave nothing."""


NO_NOTICES: Final[FolderNotices] = _None()


class InotifyFolders:
    """Notices of Linux about folders. The descriptor is opened by the first `begin`."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._report = report
        self._fd = -1
        self._is_open = anyio.Event()
        self._has_failed = False
        self._mutex = threading.Lock()
        self._folders: dict[int, Path] = {}
        self._numbers: dict[Path, int] = {}
        self._told: Told = {}

    def begin(self) -> None:
        """Open the descriptor, unless that was done or failed."""
        if self._fd >= 0 or self._has_failed:
            return
        self._fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            self._fail("no more can be watched")
        else:
            self._is_open.set()

    def watch(self, folder: Path) -> bool:
        """Return whether the changes of a folder are told from now on."""
        with self._mutex:
            if self._fd < 0 or folder in self._numbers:
                return self._fd >= 0
            if not SYSTEM.is_local(folder):
                return False
            name, mask = os.fsencode(folder), ctypes.c_uint32(_MASK)
            number = self._libc.inotify_add_watch(self._fd, name, mask)
            if number < 0 or number in self._folders:
                # Missing, over the system's limit, or another name of a watched folder.
                return False
            self._folders[number], self._numbers[folder] = folder, number
            return True

    def covers(self, folder: Path) -> bool:
        """Return whether the changes of a folder are told."""
        return folder in self._numbers

    def end(self, folder: Path) -> None:
        """End the notices about a folder."""
        with self._mutex:
            number = self._numbers.pop(folder, None)
            if number is not None:
                del self._folders[number]
                self._libc.inotify_rm_watch(self._fd, number)
            self._told.pop(folder, None)

    def has_any(self) -> bool:
        """Return whether there are changes. One call of the system, however many folders there are."""
        with self._mutex:
            self._read()
            return bool(self._told)

    def take(self) -> Told:
        """Return the changes since the last call."""
        with self._mutex:
            self._read()
            told, self._told = self._told, {}
            return told

    async def run(self, wake: Callable[[], None]) -> None:
        """Call `wake` after changes. Closes the descriptor in the end."""
        try:
            await self._is_open.wait()
            while not self._has_failed:
                await anyio.wait_readable(self._fd)
                if self.has_any():
                    wake()
                # A pause, so that a program that writes much causes few wake-ups.
                await anyio.sleep(WATCH_SECONDS)
        finally:
            self.close()

    def close(self) -> None:
        """Close the descriptor. Safe to repeat."""
        with self._mutex:
            self._give_up()

    def _read(self) -> None:
        """Take in every notice that the system holds."""
        while self._fd >= 0:
            try:
                data = os.read(self._fd, _READ_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                self._fail(os.strerror(error.errno or 0))
                self._give_up()
                return
            self._take_in(data)

    def _take_in(self, data: bytes) -> None:
        for number, mask, name in events_in(data):
            if mask & OVERFLOW:
                self._told |= dict.fromkeys(self._numbers)
            folder = self._folders.get(number)
            if folder is None:
                continue
            if mask & _LOST:
                # The folder is gone, or has another name: its path is looked at from now on.
                del self._folders[number], self._numbers[folder]
                if mask & MOVE_SELF:
                    self._libc.inotify_rm_watch(self._fd, number)
            names = self._told.setdefault(folder, set())
            if not name:
                # The folder itself changed, as its permissions.
                self._told[folder] = None
            elif names is not None:
                names.add(os.fsdecode(name))

    def _fail(self, why: str) -> None:
        self._has_failed = True
        self._report(f"folders of roots are looked at with every list: inotify: {why}")

    def _give_up(self) -> None:
        """Close the descriptor; every folder counts as changed."""
        if self._fd >= 0:
            with suppress(OSError):
                os.close(self._fd)
        self._fd = -1
        self._told |= dict.fromkeys(self._numbers)
        self._folders.clear()
        self._numbers.clear()
