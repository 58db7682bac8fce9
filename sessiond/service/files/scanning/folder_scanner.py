"""Folder scanner: compares a profile's folders with the catalog, to find foreign changes.

Rule 1: a file is read only when its inode, size or time differs from its row.

Rule 2: names are read whenever a folder has changed (`mtime_cache`), the state of every file at
most once per SCAN_SECONDS.

Rule 3: an open session's row is its actor's task; here only its file's name counts.

Rule 4: of several files with one session id the first in the layout's order is the session; the
other files are listed as unreadable. A file of a root never gets an id that another file has.

Rule 5: what was listed because of a root leaves the catalog with the root (`root_folders` says how
roots are looked at). One scan works with one set of roots. Roots that change meanwhile are the next
scan's.

Blocking, for worker threads, one scan at a time.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Set
from functools import partial
from pathlib import Path

from msgspec import Struct

from sessiond.build import BUILD
from sessiond.catalog.rows import NOTHING, Fingerprint, Known, Records, Stored
from sessiond.errors import SessiondError, StorageError
from sessiond.journal.disk.failures import is_silence, telling
from sessiond.journal.disk.files import FileStat
from sessiond.journal.disk.settled import is_settled
from sessiond.limits import (
    FIGURES_BYTES_MAX,
    FIGURES_BYTES_PER_SECOND,
    FIGURES_QUIET_SECONDS,
    SCAN_BATCH_ROWS,
    SCAN_SECONDS,
)
from sessiond.model.ids import derive_session_id, is_session_id
from sessiond.service.external.folder_notices import FolderNotices
from sessiond.service.files.catalog_records import fingerprint_of
from sessiond.service.files.profile import Profile
from sessiond.service.files.roots.roots import Root, is_session_name
from sessiond.service.files.rows import NothingSaid
from sessiond.service.files.scanning.batches import Read, for_many, store_in_batches
from sessiond.service.files.scanning.file_index import FileIndex
from sessiond.service.files.scanning.mtime_cache import MtimeCache
from sessiond.service.files.scanning.root_folders import Look, RootFolders
from sessiond.service.files.scanning.row_makers import Asked, RowMakers, Setup
from sessiond.service.ports import Progress
from sessiond.service.store.listed import Behind, Report, SampledSession, StoreRead, Unreadable
from sessiond.visible import printable


class _IsLinked(Exception):
    """End of the reading of a link to a file that is listed where the file lies."""


class _IsRecorded(Exception):
    """End of the reading of a file whose session has a record, or another file."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id


class _Unread(Struct, frozen=True):
    """A new file: the time of its last write, and its state, or the session that the name of a profile's file says."""

    mtime_ns: int
    path: str
    found: FileStat | None
    session_id: str = ""


class FolderScanner:
    """The state of the folders when they were looked at last."""

    unanswered = 0
    shown_at = ""
    unread_ns: int | None = None

    def __init__(
        self,
        profile: Profile,
        is_open: Callable[[str], bool],
        notices: FolderNotices,
    ) -> None:
        self._profile = profile
        self._roots = profile.roots
        # The roots that scans list. They change in the same turn as what hides open sessions.
        self._wanted_roots = profile.roots.current
        self._notices = notices
        self._layout = profile.layout
        self._files = profile.files
        self._paths = profile.paths
        self._monotonic = profile.environment.monotonic
        self._is_open = is_open
        self._catalog = profile.catalog
        self._moved = profile.session_files.moved
        self._generation = -1
        self._running = False
        self._forget()

    def _forget(self) -> None:
        self._claims = FileIndex(self._layout)
        self.root_folders = RootFolders(self._paths, self._roots, self._notices, self._monotonic)
        self._listed_roots: tuple[Root, ...] | None = None
        """The roots of the last scan; None while the catalog was not asked."""
        self._known_at: dict[str, str] = {}
        self._doubtful: set[str] = set()
        # The state of files that are no sessions, with the time that a change of permissions sets.
        self._refused: dict[str, tuple[int, ...]] = {}
        # Files that were listed because of a root that is no root any more.
        self._left: dict[str, str] = {}
        self._seen: dict[str, Fingerprint] = {}
        # Files of roots whose ids the reading of the files will tell.
        self._arrived: dict[str, FileStat] = {}
        # The time of the last new file that was read.
        self._read_ns: int | None = None
        # Times of the profile's own files that a scan met, their places in the order of the looks, and the records
        # of sessions as they were before the scan; None where few files are new.
        self._written: dict[str, int] = {}
        self._looks: dict[str, int] = {}
        self._recorded: Records | None = None
        # New files that have the ids in their headers, by these ids.
        self._new_owners: dict[str, str] = {}
        # Those of them that could not be read, since their root did not answer.
        self._put_off: dict[str, FileStat] = {}
        self._unreadable: dict[str, str] = {}
        self._folders = MtimeCache(self._files)
        # Ids in the names of the files in the trash.
        self._trashed: Set[str] = frozenset()
        self._next_full = float("-inf")
        self._expected: set[str] = set()
        # Sessions whose agents gave them names in other files, until they are read.
        self._renamed: set[str] = set()
        # Files outside the profile that were opened by their paths.
        self._elsewhere: dict[str, str] = {}
        self._parts: dict[str, SampledSession] = {}

    # -- is there anything to do -----------------------------------------------------

    @property
    def is_behind(self) -> bool:
        """Return whether rows were lost, or never existed, since the last scan."""
        return self._catalog.file.generation != self._generation

    @property
    def has_roots(self) -> bool:
        """Return whether sessions may lie in folders of other programs."""
        return bool(self._roots.current)

    def roots_have_changed(self) -> bool:
        """Return whether a root may have files that no look has found yet.

        Costs a few calls for roots of any size, if the system tells the changes of their folders.
        """
        if not self.has_roots:
            return False
        self._catalog.file.look()
        return self._running or self.is_behind or self.root_folders.has_changed()

    @property
    def has_other_roots(self) -> bool:
        """Return whether roots were added or removed since the last scan."""
        return self._listed_roots is not self._roots.current

    @property
    def must_be_polled(self) -> bool:
        """Return whether the system does not tell the changes of a root's folders."""
        return self.root_folders.must_be_polled

    def take_roots(self) -> None:
        """Let the next scan list the roots that there are now."""
        self._wanted_roots = self._roots.current

    def prepare(self) -> None:
        """Make ready for notices about the folders of roots. Called on the loop."""
        if self._wanted_roots:
            self._notices.begin()

    def watched(self) -> None:
        """Do nothing: the folders tell their changes, or are polled."""

    def behind(self) -> Behind:
        """Return the open sessions whose files other programs have moved."""
        return dict(self._moved)

    def caught_up(self, sessions: Behind) -> None:
        """Do nothing: a session is behind until the row with its path is stored."""

    def miss(self, sessions: Iterable[str]) -> None:
        """Do nothing: the log that follows is touched as it is opened, or else the file shows a change."""

    def shows_old_rows(self) -> bool:
        """Return False: the rows of open sessions are those of the only daemon that has them."""
        return False

    def expect(self, session_id: str) -> None:
        """Record a change of this session's file: the next scan looks at it too."""
        self._expected.add(session_id)

    def is_due(self) -> bool:
        """Return whether a list has to wait for a scan.

        Costs a few calls for folders of any size.
        """
        self._catalog.file.look()
        return (
            self._running
            or self.is_behind
            or bool(self._expected or self._put_off)
            or self._monotonic() >= self._next_full
            or any(self._folders.has_changed(folder) for folder in self._claims.folders)
            or self.root_folders.has_changed()
        )

    def unreadable(self, *, drafts: bool, archived: bool | None) -> list[Unreadable]:
        """Return the files that are no sessions, of the folders that a list shows."""
        folders = {self._layout.sessions: archived is not True}
        folders |= {self._layout.archive: archived is not False, self._layout.pending: drafts}
        found = sorted(self.root_folders.troubles.items()) + sorted(dict(self._unreadable).items())
        return [
            Unreadable(printable(path), printable(reason))
            for path, reason in found
            if folders.get(Path(path).parent, True)
        ]

    def meet(self, rows: Iterable[Stored], gone: Collection[str]) -> None:  # noqa: ARG002 - folders tell
        """Take note of rows that were stored: their files may lie outside all folders."""
        for row in rows:
            if row.path is None:
                continue
            if self._is_elsewhere(row.path):
                self._elsewhere[row.path] = row.session_id
            if self._moved and self._moved.get(row.session_id) == Path(row.path):
                self._moved.pop(row.session_id, None)

    def forget(self, session_id: str) -> None:
        """Forget a file outside all folders that is in no list any more."""
        for path, found in list(self._elsewhere.items()):
            if found == session_id:
                self._elsewhere.pop(path, None)

    def _is_elsewhere(self, path: str) -> bool:
        """Return whether a file lies outside the profile and all roots."""
        there = Path(path)
        return not (
            there.parent in self._claims.folders
            or there.parent in self.root_folders.folders
            or self._roots.holds(there)
            or path in self._left
        )

    # -- figures of a part ---------------------------------------------------------------

    def next_part(self, done: Collection[str]) -> tuple[SampledSession | None, int]:
        """Return the session to be read whole next, but for those `done`, and how many there are.

        Of those that are due the newest comes first.
        """
        now = self._monotonic()
        left = [part for part in self._parts.copy().values() if part.session_id not in done]
        first = min(left, key=lambda part: (max(part.due, now), -part.mtime_ns), default=None)
        return first, len(left)

    def _take_part(self, session_id: str, mtime_ns: int, quiet_seconds: float) -> None:
        due = self._monotonic() + quiet_seconds
        self._parts[session_id] = SampledSession(session_id, due, mtime_ns)

    def read_whole(self, part: SampledSession, progress: Progress, *, soon: bool) -> Read | None:
        """Return the row of a session whose whole file was read, and the mark recorded before; or None.

        A file that was just written to is due later, unless the file has to be read `soon`. The row stays as it is
        where the session is open, and where the file is gone or too large.
        """
        session_id = part.session_id
        if self._parts.get(session_id) is part:
            del self._parts[session_id]
        known = self._profile.records.known(session_id)
        if known is None or not known.listed or self._is_open(session_id):
            return None
        path = Path(known.path)
        try:
            found = fingerprint_of(self._paths.stat(path))
            quiet = FIGURES_QUIET_SECONDS + found.size / FIGURES_BYTES_PER_SECOND
            waits = quiet - (self._files.now() - found.mtime_ns / 1e9)
            if found.size > FIGURES_BYTES_MAX:
                return None
            if waits > 0 and not soon:
                self._take_part(session_id, found.mtime_ns, waits)
                return None
            seen = self._settled(found)
            row = self._profile.rows.read_whole(path, session_id, known, seen, progress)
        except (SessiondError, OSError):
            # The next scan of the folders says what is wrong with the file.
            return None
        return None if self._is_open(session_id) else (row, known.mark)

    # -- the scan ----------------------------------------------------------------------

    def run(self, store: StoreRead, report: Report) -> None:
        """Look, and store the changes. `store` makes each transaction. Raises StorageError."""
        roots = self._wanted_roots
        self._running = True
        expected, self._expected = self._expected, set()
        try:
            with telling("look through", self._layout.root):
                self._run(roots, expected, store, report)
        except BaseException:
            # Half a scan is void: the next one begins with the catalog's state.
            expected |= self._expected
            self._forget()
            self._expected = expected
            raise
        finally:
            self._running = False
            self._read_ns = self.unread_ns = None

    def _run(
        self, roots: tuple[Root, ...], expected: set[str], store: StoreRead, report: Report
    ) -> None:
        self._catalog.file.look()
        generation = self._catalog.file.generation
        if generation != self._generation:
            self._forget()
        known = (
            {row.session_id: row for row in self._catalog.all() if row.is_file}
            if not self._seen
            else None
        )
        touched = self._look(roots, expected, known)
        if len(self._arrived) > SCAN_BATCH_ROWS and known is None:
            known = {row.session_id: row for row in self._catalog.all() if row.is_file}
        self._recorded = None if known is None else Records(known.values())
        self._settle(touched, store, report)
        self._recorded, self._written, self._looks, self._new_owners = None, {}, {}, {}
        self._settle_roots(roots)
        self._generation = generation

    def _look(
        self, roots: tuple[Root, ...], expected: set[str], known: dict[str, Known] | None
    ) -> list[str]:
        """Return the sessions whose files changed, in the order of their ids."""
        full = self._monotonic() >= self._next_full
        touched: dict[str, None] = dict.fromkeys(expected)
        if known is not None:
            listed = [row for row in known.values() if row.listed]
            self._seen = {row.path: row.fingerprint for row in listed}
            self._known_at = {row.path: row.session_id for row in listed}
            for row in self._catalog.parts():
                self._take_part(row.session_id, row.fingerprint.mtime_ns, FIGURES_QUIET_SECONDS)
            # An older version may have recorded one file as two sessions.
            often = Counter(row.path for row in listed)
            self._doubtful = {path for path, count in often.items() if count > 1}
        touched |= dict.fromkeys(self._look_left(roots))
        for folder in self._claims.folders:
            if full or self._folders.has_changed(folder):
                touched |= dict.fromkeys(self._take_in(self._look_into(folder, full=full)))
        for look in self.root_folders.look(roots, full=full):
            touched |= dict.fromkeys(self._take_in(look))
        for path, session_id in self._known_at.items():
            if self._is_elsewhere(path):
                self._elsewhere[path] = session_id
        self._known_at = {}
        if full:
            touched |= dict.fromkeys(self._look_for_names(roots))
            touched |= dict.fromkeys(self._look_elsewhere())
            self._next_full = self._monotonic() + SCAN_SECONDS
        return sorted(touched | dict.fromkeys(self._missing(known or {})))

    def _missing(self, known: dict[str, Known]) -> Iterable[str]:
        """Yield the sessions whose files disappeared or moved while no daemon looked."""
        for row in known.values():
            if self._claims.of(row.session_id)[0] != row.path and row.path not in self._elsewhere:
                yield row.session_id

    def _look_left(self, roots: tuple[Root, ...]) -> Iterable[str]:
        """Yield the sessions that are listed because of a root that is no root any more."""
        if self._listed_roots is not roots:
            for path in self._catalog.roots() - {root.path for root in roots}:
                for row in self._catalog.below(path):
                    self._left[row.path] = row.session_id
                    yield row.session_id

    def _settle_roots(self, roots: tuple[Root, ...]) -> None:
        """Record the roots whose sessions are listed; erase what left with a root."""
        if self._listed_roots is not roots:
            left = list(self._left.values())
            self._catalog.set_roots({root.path for root in roots}, left)
            if left:
                self._profile.texts.forget(left)
            self._listed_roots = roots
            self._left = {}

    def _look_into(self, folder: Path, *, full: bool) -> Look:
        look = self._folders.look(folder)
        found: dict[str, FileStat | None] = {}
        try:
            with telling("list", folder):
                if full:
                    found |= self._files.stats(folder)
                else:
                    found = dict.fromkeys(self._files.listdir(folder))
        except StorageError as error:
            if error.data()["errno"] != "ENOENT":
                raise
        self._folders.looked(look)
        names = {name: one for name, one in found.items() if is_session_name(name)}
        times = {
            f"{folder}/{name}": one.st_mtime_ns for name, one in names.items() if one is not None
        }
        self._written |= times
        return Look(folder, names)

    def _take_in(self, look: Look) -> Iterable[str]:
        """Yield the sessions that the files in a folder concern."""
        folder, found = look.folder, look.found
        is_own = folder in self._claims.folders
        names: Iterable[str] = found
        if look.asked is not None:
            names = (self._claims.names(folder) - look.asked) | found.keys()
        again = {name for name, one in found.items() if self._is_changed(f"{folder}/{name}", one)}
        yield from self._claims.update(
            folder,
            names,
            lambda name: self._identify(folder, name, found.get(name), is_own=is_own),
            again,
        )
        for path in self._claims.take_gone():
            for kept in (self._seen, self._unreadable, self._refused):
                kept.pop(path, None)
        for name, one in found.items():
            path = f"{folder}/{name}"
            session_id = self._claims.id_at(path)
            if path in self._arrived:
                continue
            if session_id is None and one is not None:
                self._refused[path] = _state(one)
            elif one is not None and self._seen.get(path) != fingerprint_of(one):
                yield from () if session_id is None else (session_id,)

    def _is_changed(self, path: str, found: FileStat | None) -> bool:
        """Return whether a file that was no session, or one that was deleted, has changed since."""
        if found is None:
            return False
        session_id = self._claims.id_at(path)
        if session_id is not None and self._layout.id_of(Path(path)) is None:
            return self._seen.get(path) != fingerprint_of(found) and self._is_deleted(session_id)
        refused = self._refused.get(path)
        return refused is not None and refused != _state(found)

    def _is_deleted(self, session_id: str) -> bool:
        """Return whether a session was deleted, and is in the trash. Raises StorageError."""
        folder, trash = self._layout.trash, self._profile.session_files.trash
        if self._folders.has_changed(folder):
            look = self._folders.look(folder)
            self._trashed = trash.ids()
            self._folders.looked(look)
        # The folder may have other things of such a name.
        return session_id in self._trashed and trash.has(session_id)

    def _identify(
        self, folder: Path, name: str, found: FileStat | None, *, is_own: bool
    ) -> str | None:
        """Return the session id of a file whose name has none; record why if it is no session.

        `is_own` tells that the folder is one of the profile's.
        """
        path = f"{folder}/{name}"
        known_id = None if path in self._doubtful else self._known_at.get(path)
        if found is not None and known_id and self._seen.get(path) == fingerprint_of(found):
            # Read by an earlier daemon, and not written to since.
            return known_id
        self._unreadable.pop(path, None)
        if printable(path) != path:
            # Neither an answer nor the catalog can hold a name that is not UTF-8.
            self._unreadable[path] = "its name is not UTF-8: rename it"
            return None
        if found is not None and not is_own:
            self._arrived[path] = found
            return None
        try:
            header_id = self._profile.rows.header_id(Path(path))
        except SessiondError as error:
            self._unreadable[path] = str(error)
            return None
        session_id, _ = self._named(Path(path), header_id)
        return session_id

    def _named(self, path: Path, header_id: str) -> tuple[str, Known | None]:
        """Return the session id of a file whose name has none, and the session's record."""
        if is_session_id(header_id) and self._roots.agent_at(path):
            # The parts and copies of one session of an agent have its id.
            return header_id, self._known(header_id)
        other, _ = self._claims.of(header_id)
        before = self._recorded or self._catalog
        return self._profile.records.identify(path, header_id, other, self._is_deleted, before)

    def _known(self, session_id: str) -> Known | None:
        """Return the record of a session before this scan."""
        return (self._recorded or self._catalog).known(session_id)

    def _tell_unreadable(self, path: Path, error: SessiondError | OSError) -> None:
        """Record why a file is no session, unless it may become one."""
        if not isinstance(error, NothingSaid):
            self._unreadable[str(path)] = str(error)

    def _is_listed_elsewhere(self, path: Path) -> bool:
        """Return whether a link of a root leads to a file that is listed where it lies."""
        real = Path(self._files.real(path))
        folders = (self._claims.folders, self.root_folders.folders)
        return any(real.parent in each for each in folders) or self._roots.holds(real)

    def _look_for_names(self, roots: tuple[Root, ...]) -> Iterable[str]:
        """Yield the sessions whose agent has given them a name outside their files."""
        folders = (Path(root.path) for root in roots if root.kind == "codex")
        names = self._profile.agents.renamed(folders)
        titles = self._catalog.titles(names).items()
        self._renamed |= {session_id for session_id, title in titles if title != names[session_id]}
        # A session that is open gets its new row once it is closed.
        return set(self._renamed)

    def _look_elsewhere(self) -> Iterable[str]:
        # `meet` may add files meanwhile.
        for path, session_id in list(self._elsewhere.items()):
            try:
                found = fingerprint_of(self._paths.stat(Path(path)))
            except OSError:
                found = None
            if self._seen.get(path) != found:
                yield session_id

    # -- one session after the other -----------------------------------------------------

    def _settle(self, touched: list[str], store: StoreRead, report: Report) -> None:
        gone: list[str] = []
        total = len(self._arrived) + len(touched)
        store_in_batches(
            self._readings(touched, gone),
            gone,
            lambda rows, left: self._put(rows, left, store),
            for_many(report, total),
        )

    def _readings(self, touched: list[str], gone: list[str]) -> Iterator[Read | None]:
        """Yield what each file that may have changed was read to; None without a new row.

        New files come first, those that were written last before older ones.
        """
        arrived, self._arrived, self._put_off = self._put_off | self._arrived, {}, {}
        recorded = set(touched)
        new = [_Unread(found.st_mtime_ns, path, found) for path, found in arrived.items()]
        self._looks = {one.path: place for place, one in enumerate(new)}
        for session_id in touched:
            path, _ = self._claims.of(session_id)
            mtime_ns = None if path is None else self._written.get(path)
            if path is not None and mtime_ns is not None and not self._known(session_id):
                new.append(_Unread(mtime_ns, path, None, session_id))
                recorded.remove(session_id)
        new.sort(key=_newest_first)
        is_all = not recorded
        with self._row_makers(new) as makers:
            for start in range(0, len(new), SCAN_BATCH_ROWS):
                part = new[start : start + SCAN_BATCH_ROWS]
                rows = self._read_new(part, makers, recorded, gone)
                for one in part:
                    self._read_ns = one.mtime_ns if is_all else None
                    yield rows[one.path]
        self._read_ns = None
        for session_id in sorted(recorded):
            yield self._settle_one(session_id, gone) if self._is_file(session_id) else None

    def _row_makers(self, new: list[_Unread]) -> RowMakers:
        """Return the row makers for new files."""
        files = [(one.path, one.found) for one in new if one.found is not None]
        asked = [Asked(path, self._settled(fingerprint_of(found))) for path, found in files]
        home = os.fsencode(self._layout.home)
        setup = Setup(BUILD, home, self._layout.profile, self._roots.current)
        return RowMakers(self._profile.environment.row_makers, setup, asked)

    def _read_new(
        self, part: list[_Unread], makers: RowMakers, recorded: set[str], gone: list[str]
    ) -> dict[str, Read | None]:
        """Return the rows of new files by path. One thread reads those of one place."""
        rows: dict[str, Read | None] = {}
        at_place: dict[str, list[_Unread]] = {}
        for one in part:
            at_place.setdefault(self._roots.place_of(one.path), []).append(one)

        def read(files: list[_Unread]) -> None:
            for one in files:
                if one.found is None:
                    rows[one.path] = self._settle_one(one.session_id, gone)
                else:
                    made = makers.take(one.path)
                    rows[one.path] = self._read_arrived(Path(one.path), one.found, made, recorded)

        for files in at_place.values():
            try:
                self._files.visit(Path(files[0].path), partial(read, files))
            except TimeoutError as error:
                # Files that were read before the place fell silent stay read.
                for one in files:
                    if one.found is None:
                        raise
                    if one.path not in rows:
                        self._refuse_arrived(Path(one.path), one.found, error)
                        rows[one.path] = None
        return rows

    def _is_file(self, session_id: str) -> bool:
        """Return whether a session is a file, or may be one."""
        if self._claims.of(session_id)[0] is not None:
            return True
        known = self._profile.records.known(session_id)
        return known is None or known.is_file

    def _read_arrived(
        self, path: Path, found: FileStat, made: Stored | None, recorded: set[str]
    ) -> Read | None:
        """Return the row of a file of a root, `made` by the id in its header, or read in one opening.

        A file whose session has a record, or another file, is read as any known session is: its
        session id is added to `recorded`.
        """
        try:
            row = self._new_row(path, self._settled(fingerprint_of(found)), made, recorded)
        except _IsLinked:
            self._refused[str(path)] = _state(found)
            return None
        except _IsRecorded as found_id:
            recorded.add(found_id.session_id)
            return None
        except (SessiondError, OSError) as error:
            self._refuse_arrived(path, found, error)
            return None
        self._seen[str(path)] = row.fingerprint
        return row, None

    def _new_row(
        self, path: Path, fingerprint: Fingerprint, made: Stored | None, recorded: set[str]
    ) -> Stored:
        """Return the row of a file without a record. Raises _IsLinked, _IsRecorded, and what a reading raises."""
        rows = self._profile.rows
        if made is None:
            return rows.read_new(path, partial(self._claim, path, recorded), fingerprint)
        session_id = self._claim(path, recorded, made.session_id)
        if session_id == made.session_id:
            return made
        return rows.read(path, session_id, None, fingerprint)

    def _claim(
        self,
        path: Path,
        recorded: set[str],
        header_id: str,
        is_link: bool = False,  # noqa: FBT001, FBT002
    ) -> str:
        """Return the session id of a new file, which has it from then on. Raises _IsLinked, _IsRecorded."""
        if is_link and self._is_listed_elsewhere(path):
            raise _IsLinked
        if self._takes_id(path, header_id, recorded):
            self._claims.claim(str(path), header_id)
            raise _IsRecorded(header_id)
        session_id, known = self._named(path, header_id)
        self._claims.claim(str(path), session_id)
        if session_id == header_id and (known is None or known.path != str(path)):
            self._new_owners[header_id] = str(path)
        if known is not None or self._claims.of(session_id) != (str(path), []):
            raise _IsRecorded(session_id)
        return session_id

    def _settled(self, found: Fingerprint) -> Fingerprint:
        """Return the fingerprint of a file; that of no file if the file may change without a trace."""
        return found if is_settled(found.mtime_ns, self._files.now()) else NOTHING

    def _takes_id(self, path: Path, header_id: str, recorded: set[str]) -> bool:
        """Return whether a file takes the id in its header from a file that the same scan has named by it.

        Of new files with one id an agent's has it, else the first in the order of the looks, whichever was read
        first. The file that gives it up gets an id of its own, as if it had been read later.
        """
        owner = self._new_owners.get(header_id)
        if owner is None or self._claims.id_at(owner) != header_id or self._is_open(header_id):
            return False
        if self._roots.agent_at(Path(owner)):
            return False
        if not (self._roots.agent_at(path) or self._looks[str(path)] < self._looks[owner]):
            return False
        other_id = derive_session_id(owner)
        self._claims.rename(owner, other_id)
        self._new_owners[header_id] = str(path)
        recorded.add(other_id)
        return True

    def _refuse_arrived(self, path: Path, found: FileStat, error: SessiondError | OSError) -> None:
        """Record why a file of a root is no session, or was not read."""
        self._tell_unreadable(path, error)
        if is_silence(error):
            self._put_off[str(path)] = found
        elif self._claims.id_at(str(path)) is None:
            self._refused[str(path)] = _state(found)
        elif not isinstance(error, (StorageError, OSError)):
            self._seen[str(path)] = fingerprint_of(found)

    def _put(self, rows: list[Read], gone: list[str], store: StoreRead) -> None:
        """Store rows, and tell how far lists are whole by then."""
        # The actor of a session that was opened meanwhile reports its changes.
        rows = [read for read in rows if not self._is_open(read[0].session_id)]
        # So does the actor of a session that was deleted and made again meanwhile.
        gone = [session_id for session_id in gone if not self._is_there(session_id)]
        for session_id in gone:
            self._profile.indexes.forget(session_id)
        if rows or gone:
            stored = store(rows, gone)
            for row in stored:
                if row.is_part:
                    mtime_ns = row.fingerprint.mtime_ns
                    self._take_part(row.session_id, mtime_ns, FIGURES_QUIET_SECONDS)
            # Rows that were not stored belong to sessions being opened. The next scan looks at
            # them again, since an opening may fail.
            self._expected |= {row.session_id for row, _ in rows} - {
                row.session_id for row in stored
            }
        self.unread_ns = self._read_ns

    def _settle_one(self, session_id: str, gone: list[str]) -> Read | None:
        """Return the new row of a session, if it needs one, and the mark recorded before."""
        known = self._profile.records.known(session_id)
        path, others = self._claims.of(session_id)
        if path is not None and others and self._paths.exists(Path(path)):
            # A file that is gone moved between the looks at two folders, so there is no duplicate.
            for other in () if self._roots.agent_at(Path(path)) else others:
                self._unreadable[other] = f"has the same session id as {Path(path).name}"
        if path is None and known is not None:
            path = self._path_elsewhere(known)
        if path is None:
            if known is not None and not (self._has_place(known.path) and self._is_own(known)):
                self._miss(known, gone)
            return None
        if self._is_open(session_id):
            self._unreadable.pop(path, None)
            self._note_place(session_id, known)
            return None
        self._moved.pop(session_id, None)
        return self._read_again(session_id, Path(path), known, gone)

    def _read_again(
        self, session_id: str, path: Path, known: Known | None, gone: list[str]
    ) -> Read | None:
        """Return the new row of a session whose file is at a path; add the session to `gone` if it has none."""
        try:
            row = self._read(session_id, path, known)
        except FileNotFoundError:
            # The file disappeared after the look at its folder, whose time tells the next scan.
            return None
        except (SessiondError, OSError) as error:
            self._tell_unreadable(path, error)
            if is_silence(error):
                self._expected.add(session_id)
            elif known is not None and known.listed:
                gone.append(session_id)
            return None
        return None if row is None else (row, None if known is None else known.mark)

    def _note_place(self, session_id: str, known: Known | None) -> None:
        """Note where an open session's file is by now; its actor follows, and stores the row."""
        place = None if known is None else self._claims.goes_on_at(known.path, session_id)
        if place is not None and Path(place).parent not in self._claims.folders:
            self._moved[session_id] = Path(place)
        if session_id in self._moved:
            # Until the row says so, lists wait for a look of the actor.
            self._expected.add(session_id)

    def _has_place(self, path: str) -> bool:
        """Return whether a file is there, and may be listed."""
        if path in self._left:
            return False
        try:
            return self._paths.exists(path)
        except OSError as error:
            # A root that cannot be read has no sessions, but one that does not answer keeps what it had.
            # A profile that cannot be read is an error.
            if self._roots.holds(Path(path)):
                return isinstance(error, TimeoutError)
            raise

    def _is_own(self, known: Known) -> bool:
        """Return whether no other session has the file of this one."""
        return self._claims.id_at(known.path) is None or self._is_open(known.session_id)

    def _miss(self, known: Known, gone: list[str]) -> None:
        """Handle a missing file; forget one that was missing at the last start too."""
        if self._is_there(known.session_id):
            # The file was put in its place after the look at its folder.
            return
        self._elsewhere.pop(known.path, None)
        if known.listed:
            gone.append(known.session_id)
        elif self._generation == -1 and not self._may_come_back(known):
            self._catalog.forget([known.session_id])

    def _may_come_back(self, known: Known) -> bool:
        """Return whether a session without a file keeps its id and its epoch.

        A file outside the profile does until session/forget, and a deleted session until it is purged.
        """
        is_outside = Path(known.path).parent not in self._claims.folders
        return is_outside or self._is_deleted(known.session_id)

    def _is_there(self, session_id: str) -> bool:
        """Return whether the session is open, in a file inside the profile."""
        return self._is_open(session_id) and self._layout.find(self._files, session_id) is not None

    def _path_elsewhere(self, known: Known) -> str | None:
        if known.path in self._elsewhere and self._paths.exists(known.path):
            return known.path
        return None

    def _read(self, session_id: str, path: Path, known: Known | None) -> Stored | None:
        found = fingerprint_of(self._paths.stat(path))
        row: Stored | None = None
        if (
            known is not None
            and known.listed
            and known.fingerprint == found
            and session_id not in self._renamed
        ):
            if known.path != str(path):
                row = self._profile.rows.moved(known, path, found)
        else:
            rows, seen = self._profile.rows, self._settled(found)
            try:
                row = self._files.visit(path, lambda: rows.read(path, session_id, known, seen))
            except StorageError:
                raise
            except SessiondError:
                self._seen[str(path)] = found
                raise
            found = seen
        self._seen[str(path)] = found
        self._renamed.discard(session_id)
        self._unreadable.pop(str(path), None)
        return row


def _newest_first(one: _Unread) -> tuple[int, str]:
    return -one.mtime_ns, one.path


def _state(found: FileStat) -> tuple[int, ...]:
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
