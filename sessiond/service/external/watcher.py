"""Notices of changes to the file of an open session.

    watcher = best_watcher(files, report)       inotify if the system has it, else polling
    watch = watcher.watch(path, changed)        at least one notice after every change
    watch.end()

Law: a notice says only that something changed; the session's writer finds out what. Its own writes
cause notices too, so changes are collected for a moment and told once. Without changes there is no
wake-up, unless files have to be polled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

import anyio
from anyio import to_thread
from msgspec import Struct

from sessiond.errors import StorageError, as_outage
from sessiond.journal.disk.files import FileStat
from sessiond.limits import WATCH_POLL_SECONDS, WATCH_POLLS_AGAIN
from sessiond.service.external.folder_notices import NO_NOTICES, FolderNotices

Changed = Callable[[bool], None]
"""Called on the loop; True if the path may have another file now, or none."""
PathOf = Callable[[], Path | None]


class Looks(Protocol):
    """Source of the states of files: `Files`, or `Paths`."""

    def stat(self, path: Path) -> FileStat:
        """Return the state of a file. Raises OSError."""
        ...


class Watch(Protocol):
    """Watched file."""

    @property
    def looks(self) -> bool:
        """True if the file is polled, False if the system reports its changes."""
        ...

    def end(self) -> None:
        """End the notices. Safe to repeat."""
        ...


class Watcher(Protocol):
    """Source of notices about changes."""

    @property
    def folders(self) -> FolderNotices:
        """Source of notices about folders."""
        ...

    def watch(self, path: PathOf, changed: Changed) -> Watch:
        """Call `changed` for each change of the file that has the path."""
        ...

    async def run(self) -> None:
        """Deliver notices until cancelled, then close."""
        ...

    def close(self) -> None:
        """Give back what the system gave, also without a run. Safe to repeat."""
        ...


class _Seen(Struct, frozen=True):
    inode: int
    size: int
    changed_at: int


_NOTHING: Final = _Seen(0, 0, 0)


class _Looked:
    """Polled file."""

    looks = True

    def __init__(self, path: PathOf, changed: Changed, looked: dict[_Looked, None]) -> None:
        self.path = path
        self.changed = changed
        self.seen: _Seen | None = None
        self.again = 0
        """Number of polls to come that tell of the last change again."""
        self._looked = looked

    def end(self) -> None:
        self._looked.pop(self, None)


class PollingWatcher:
    """Polling of every watched file each `seconds`; rests while there is none."""

    folders = NO_NOTICES

    def __init__(self, paths: Looks, seconds: float = WATCH_POLL_SECONDS) -> None:
        self._paths = paths
        self._seconds = seconds
        self._looked: dict[_Looked, None] = {}
        self._wanted = anyio.Event()

    def watch(self, path: PathOf, changed: Changed) -> Watch:
        """Watch a file as `Watcher` says. Changes just before the call are told too."""
        watch = _Looked(path, changed, self._looked)
        self._looked[watch] = None
        self._wanted.set()
        return watch

    async def run(self) -> None:
        """Poll as `Watcher` says."""
        while True:
            await self._wanted.wait()
            while self._looked:
                watched = list(self._looked)
                # Without a thread, the next look finds what has changed.
                seen = [one.seen for one in watched]
                with suppress(StorageError), as_outage():
                    seen = await to_thread.run_sync(self._look, [one.path() for one in watched])
                for watch, found in zip(watched, seen, strict=True):
                    if watch not in self._looked:
                        continue
                    if found != watch.seen:
                        watch.seen, watch.again = found, WATCH_POLLS_AGAIN
                        watch.changed(True)  # noqa: FBT003 - polling cannot tell whether the name changed
                    elif watch.again:
                        # FUSE may tell the size of bytes that it does not give yet.
                        watch.again -= 1
                        watch.changed(False)  # noqa: FBT003
                await anyio.sleep(self._seconds)
            self._wanted = anyio.Event()

    def close(self) -> None:
        """Do nothing: the system gave nothing."""

    def _look(self, paths: Sequence[Path | None]) -> list[_Seen | None]:
        return [self._look_at(path) for path in paths]

    def _look_at(self, path: Path | None) -> _Seen:
        try:
            found = self._paths.stat(path) if path is not None else None
        except OSError:
            found = None
        if found is None:
            return _NOTHING
        return _Seen(found.st_ino, found.st_size, found.st_mtime_ns)


class _NoWatch:
    looks = False

    def end(self) -> None:
        """Do nothing."""


NO_WATCH: Final[Watch] = _NoWatch()


class Unwatched:
    """Source without notices: the next write finds foreign lines."""

    folders = NO_NOTICES

    def watch(self, path: PathOf, changed: Changed) -> Watch:
        """Return a watch without notices."""
        del path, changed
        return NO_WATCH

    async def run(self) -> None:
        """Return at once."""

    def close(self) -> None:
        """Do nothing: the system gave nothing."""
