"""Looks at the folders of the roots, as far as a folder may have changed.

Rule 1: a folder whose changes the system tells is not looked at until a change is told. Then only
the names that were told are looked at. Once in ROOT_SCAN_SECONDS all names are, for changes that no
system tells, as on a network disk.

Rule 2: another folder is treated as the profile's own: a list looks at the folder's time, and at
every file at most once per SCAN_SECONDS.

Rule 3: a root that is gone or cannot be read is reported and has no files. Other roots, and the
profile, do not notice.

Blocking, for worker threads, one look at a time.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from msgspec import Struct

from sessiond.journal.disk.files import FileStat
from sessiond.limits import ROOT_SCAN_SECONDS, SCAN_BATCH_ROWS
from sessiond.service.external.folder_notices import FolderNotices, Told
from sessiond.service.files.roots.roots import Root, Roots
from sessiond.service.files.scanning.mtime_cache import MtimeCache
from sessiond.service.sources.agents.opencode.paths import Paths


class Look(Struct, frozen=True):
    """The files that a look at a folder found.

    `asked` has the names that were looked for; None if all names were. `found` has None for a file
    of which only the name was looked at.
    """

    folder: Path
    found: Mapping[str, FileStat | None]
    asked: Set[str] | None = None


class _Place(Struct, frozen=True):
    """A folder of a root; `parts` are the names that lead there from the root."""

    folder: Path
    root: Root
    parts: tuple[str, ...]

    @property
    def is_inside(self) -> bool:
        """True if the folder lies in the root, rather than where a link in the root leads."""
        # Texts: every look asks for each folder, and a `Path` per question is slow.
        return str(self.folder) == os.path.join(self.root.path, *self.parts)  # noqa: PTH118


class _Found(Struct, frozen=True):
    """The files and folders that a look found under the names."""

    found: dict[str, FileStat]
    asked: Set[str] | None = None

    def files(self, place: _Place) -> Look:
        """Return the files that may be sessions."""
        found = {
            name: one
            for name, one in self.found.items()
            if not stat.S_ISDIR(one.st_mode) and place.root.has_session((*place.parts, name))
        }
        return Look(place.folder, found, self.asked)


class RootFolders:
    """The folders of the roots as they were looked at last."""

    def __init__(
        self,
        paths: Paths,
        roots: Roots,
        notices: FolderNotices,
        monotonic: Callable[[], float],
    ) -> None:
        self.troubles: dict[str, str] = {}
        """Reasons why folders could not be read, by path."""
        self.folders: set[Path] = set()
        self._paths = paths
        self._roots = roots
        self._notices = notices
        self._monotonic = monotonic
        self._mtimes = MtimeCache(paths)
        self._looked_at: tuple[Root, ...] = ()
        # The folders directly below each folder, by the name that leads there.
        self._below: dict[Path, dict[str, Path]] = {}
        self._next_full = float("-inf")

    def has_changed(self) -> bool:
        """Return whether a folder may have changed, or the roots have.

        Costs one call of the system for all folders whose changes are told.
        """
        return (
            self._roots.current is not self._looked_at
            or self._notices.has_any()
            or any(self._mtimes.has_changed(folder) for folder in self._untold())
        )

    @property
    def must_be_polled(self) -> bool:
        """True if the changes of some folder are not told."""
        return any(True for _ in self._untold())

    def _untold(self) -> Iterator[Path]:
        return (folder for folder in self.folders if not self._notices.covers(folder))

    def look(self, roots: tuple[Root, ...], *, full: bool) -> Iterator[Look]:
        """Look at what may have changed; `full` also at the files of folders that are not told."""
        self._looked_at, told = roots, self._notices.take()
        now = self._monotonic()
        if now >= self._next_full:
            self._next_full = now + ROOT_SCAN_SECONDS
            told |= dict.fromkeys(self.folders)
        places = [_Place(Path(root.path), root, ()) for root in roots]
        met = {place.folder: place for place in places}
        # Folders that are found below are looked at in turn, the roots first.
        for place, look in self._looks(places, told, full=full):
            if look is not None:
                yield look
            for name, below in self._below.get(place.folder, {}).items():
                if below not in met:
                    met[below] = _Place(below, place.root, (*place.parts, name))
                    places.append(met[below])
        for folder in self.folders - met.keys():
            self._leave(folder)
            yield Look(folder, {})
        self.folders = set(met)
        self._roots.linked = frozenset(
            place.folder for place in places if place.parts and not place.is_inside
        )

    def _looks(
        self, places: Sequence[_Place], told: Told, *, full: bool
    ) -> Iterator[tuple[_Place, Look | None]]:
        """Yield each place, also those that come meanwhile, with the look at it. One thread looks at many of a root."""
        at = 0
        while at < len(places):
            _, of_root = next(groupby(places[at : at + SCAN_BATCH_ROWS], attrgetter("root")))
            part, found = list(of_root), list[Look | None]()
            while len(found) < len(part):
                try:
                    look = partial(self._look_at_each, part, found, told, full=full)
                    self._paths.visit(part[len(found)].folder, look)
                except TimeoutError as error:
                    self._silent(part[len(found)].folder, error)
                    found.append(None)
            yield from zip(part, found, strict=True)
            at += len(part)

    def _look_at_each(
        self, part: list[_Place], found: list[Look | None], told: Told, *, full: bool
    ) -> None:
        """Add the looks at the places behind those that are found already."""
        for place in part[len(found) :]:
            found += [self._look(place, told, full=full)]

    def _look(self, place: _Place, told: Told, *, full: bool) -> Look | None:
        """Return what a folder has now; None if that is known, or if the folder's root does not answer."""
        folder = place.folder
        try:
            found = self._found(folder, told, full=full)
            return None if found is None else self._without_folders(place, found)
        except TimeoutError as error:
            self._silent(folder, error)
            return None
        except OSError as error:
            self._notices.end(folder)
            self.troubles[str(folder)] = f"cannot be read: {error.strerror}"
            return self._without_folders(place, _Found({}))

    def _silent(self, folder: Path, error: TimeoutError) -> None:
        """Name a folder that does not answer. Without a watch and a state, the next scan looks again."""
        self._notices.end(folder)
        self._mtimes.forget(folder)
        self.troubles[str(folder)] = str(error.strerror)

    def _found(self, folder: Path, told: Told, *, full: bool) -> _Found | None:
        is_new = folder not in self.folders
        covered = self._notices.covers(folder)
        names = told.get(folder, set())
        if covered and not is_new and names is not None:
            return self._look_at(folder, names) if names else None
        if not (is_new or names is None or full or self._mtimes.has_changed(folder)):
            return None
        if not covered:
            # The system may wait for a folder that is to be watched, so a look that ends comes before.
            self._paths.stat(folder)
            # Before the names are read, so that no change is missed.
            self._notices.watch(folder)
        mark = self._mtimes.look(folder)
        try:
            found = self._paths.stats(folder)
        except OSError:
            # But for the end of a visit that was given up: a later look has the folder by now.
            self._mtimes.looked(mark)
            raise
        self._mtimes.looked(mark)
        self.troubles.pop(str(folder), None)
        return _Found(found)

    def _look_at(self, folder: Path, names: Set[str]) -> _Found:
        found: dict[str, FileStat] = {}
        for name in names:
            try:
                found[name] = self._paths.stat(folder / name)
            except TimeoutError:
                raise
            except OSError:
                continue
        return _Found(found, names)

    def _without_folders(self, place: _Place, look: _Found) -> Look:
        """Return the look's session files, and set the folders directly below."""
        top, below = place.folder, self._below.setdefault(place.folder, {})
        for name in list(below) if look.asked is None else look.asked & below.keys():
            if name not in look.found or not stat.S_ISDIR(look.found[name].st_mode):
                del below[name]
        # In the order of their names, so that the order of the looks does not depend on the disk.
        for name in sorted(
            name for name, found in look.found.items() if stat.S_ISDIR(found.st_mode)
        ):
            if name not in below and place.root.leads_to((*place.parts, name)):
                real = self._real(top / name)
                if not self._roots.is_own(str(real)):
                    below[name] = real
        return look.files(place)

    def _real(self, path: Path) -> Path:
        """Return a name in a folder of a root without links. The path of the folder has none."""
        try:
            if not stat.S_ISLNK(self._paths.lstat(path).st_mode):
                return path
        except TimeoutError:
            raise
        except OSError:
            # It is gone by now, or lies where nobody may look.
            return path
        return Path(self._paths.real(path))

    def _leave(self, folder: Path) -> None:
        self._notices.end(folder)
        self._below.pop(folder, None)
        self.troubles.pop(str(folder), None)
