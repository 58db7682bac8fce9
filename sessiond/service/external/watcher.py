"""Who is told when another program writes to the file of an open session.

    watching = best_watching(files, report)     inotify where there is, else looks
    watch = watching.watch(path, changed)       told at least once after every change
    watch.end()

Law: telling is all; what changed is for the session's writer to find out, and its own
writes are told too. So changes are collected for a moment, and then told once. Nothing
wakes up while nothing changes, unless files have to be looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

import anyio
from anyio import to_thread
from msgspec import Struct

from sessiond.journal.disk.files import Files
from sessiond.limits import WATCH_POLL_SECONDS

__all__ = ["NO_WATCH", "Changed", "Looking", "PathOf", "Unwatched", "Watch", "Watching"]

Changed = Callable[[bool], None]
"""Called on the loop: True if the path may have another file now, or none."""
PathOf = Callable[[], Path | None]


class Watch(Protocol):
    """One file under watch."""

    @property
    def looks(self) -> bool:
        """Whether it is looked at now and then; nobody tells by himself when it changes."""
        ...

    def end(self) -> None:
        """No more calls. Safe to repeat."""
        ...


class Watching(Protocol):
    """One way to learn of changes."""

    def watch(self, path: PathOf, changed: Changed) -> Watch:
        """Tell of each change of the file that has the path."""
        ...

    async def run(self) -> None:
        """Tell, until cancelled."""
        ...


class _Seen(Struct, frozen=True):
    inode: int
    size: int
    changed_at: int


_NOTHING: Final = _Seen(0, 0, 0)


class _Looked:
    """A file that is looked at."""

    looks = True

    def __init__(self, path: PathOf, changed: Changed, looked: dict[_Looked, None]) -> None:
        self.path = path
        self.changed = changed
        self.seen: _Seen | None = None
        self._looked = looked

    def end(self) -> None:
        self._looked.pop(self, None)


class Looking:
    """Looks at every watched file each `seconds`, and rests while there is none."""

    def __init__(self, files: Files, seconds: float = WATCH_POLL_SECONDS) -> None:
        self._files = files
        self._seconds = seconds
        self._looked: dict[_Looked, None] = {}
        self._wanted = anyio.Event()

    def watch(self, path: PathOf, changed: Changed) -> Watch:
        """See `Watching`. What happened just before is told, too."""
        watch = _Looked(path, changed, self._looked)
        self._looked[watch] = None
        self._wanted.set()
        return watch

    async def run(self) -> None:
        """See `Watching`."""
        while True:
            await self._wanted.wait()
            while self._looked:
                watched = list(self._looked)
                seen = await to_thread.run_sync(self._look, [one.path() for one in watched])
                for watch, found in zip(watched, seen, strict=True):
                    if watch in self._looked and found != watch.seen:
                        watch.seen = found
                        watch.changed(True)  # noqa: FBT003 - nobody can say
                await anyio.sleep(self._seconds)
            self._wanted = anyio.Event()

    def _look(self, paths: Sequence[Path | None]) -> list[_Seen]:
        return [self._look_at(path) for path in paths]

    def _look_at(self, path: Path | None) -> _Seen:
        try:
            found = self._files.stat(path) if path is not None else None
        except OSError:
            found = None
        if found is None:
            return _NOTHING
        return _Seen(found.st_ino, found.st_size, found.st_mtime_ns)


class _NoWatch:
    looks = False

    def end(self) -> None:
        """There is nothing to end."""


NO_WATCH: Final[Watch] = _NoWatch()


class Unwatched:
    """Nobody is told: what others write is found with the next write."""

    def watch(self, path: PathOf, changed: Changed) -> Watch:
        """See `Watching`."""
        del path, changed
        return NO_WATCH

    async def run(self) -> None:
        """There is nothing to do."""
