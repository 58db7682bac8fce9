"""Looks at paths: files, and the sessions of databases, as a folder of files shows them.

A database of opencode stands for a folder. Each of its sessions that has a message is a file there,
whose time and inode change as those of a file would.

Law: nothing is opened for a path outside databases, and a database only after it changed.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from msgspec import Struct, structs

from sessiond.dialects.agents.places import DATABASE_SUFFIX
from sessiond.errors import SessiondError, StorageError, TooLarge
from sessiond.journal.disk.failures import is_silence
from sessiond.journal.disk.files import Files, FileStat
from sessiond.journal.disk.settled import is_settled
from sessiond.limits import OPENCODE_AGAIN_SECONDS
from sessiond.service.sources.agents.opencode.database import Database, is_database
from sessiond.service.sources.agents.opencode.places import StoredPlace, stored_place
from sessiond.service.sources.agents.opencode.rows import StoredSession, StoreState
from sessiond.service.sources.agents.opencode.source import inode_of

_MS_NS = 1_000_000


class _Stat(Struct, frozen=True):
    """A `FileStat` of what is no file."""

    st_dev: int
    st_ino: int
    st_mode: int
    st_uid: int
    st_size: int
    st_mtime_ns: int
    st_ctime_ns: int


class _Read(Struct, frozen=True):
    """The sessions of a database, at a state of its files.

    A change within one tick of the clock does not show in a state that is not settled.
    """

    state: StoreState
    found: dict[str, FileStat]
    is_settled: bool


class _Refused(Struct, frozen=True):
    """A read that was too large, at a state of the database's files and a time."""

    state: StoreState
    at: float
    error: TooLarge

    def fits(self, state: StoreState, now: float) -> bool:
        """Return whether the read would be refused again, as far as the files tell, and for a while only."""
        return self.state == state and 0 <= now - self.at < OPENCODE_AGAIN_SECONDS


class Paths:
    """Looks at paths, as those of `Files`. Any thread may look."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self.now, self.real, self.visit = files.now, files.real, files.visit
        self._read: dict[Path, _Read] = {}
        self._refused: dict[Path, _Refused] = {}
        self._held: dict[Path, str] = {}
        """The reasons why databases are shown as they were."""

    def stat(self, path: Path) -> FileStat:
        """Return the stat result of what the name leads to. Raises OSError."""
        try:
            found = self._files.stat(path)
        except NotADirectoryError:
            return self._row(path)
        return self._as_folder(path, found) if path.suffix == DATABASE_SUFFIX else found

    def lstat(self, path: Path) -> FileStat:
        """Return the stat result of the name itself. Raises OSError."""
        try:
            return self._files.lstat(path)
        except NotADirectoryError:
            return self._row(path)

    def exists(self, path: Path | str) -> bool:
        """Return whether the name leads to a file, a folder or a session."""
        if self._files.exists(path):
            return True
        try:
            self._row(Path(path))
        except FileNotFoundError:
            return False
        return True

    def listdir(self, folder: Path) -> list[str]:
        """Return the names in a folder, in no order. Raises OSError."""
        try:
            return self._files.listdir(folder)
        except NotADirectoryError:
            return list(self._rows(folder))

    def stats(self, folder: Path) -> dict[str, FileStat]:
        """Return the stat result for every name in a folder. Raises OSError."""
        try:
            found = self._files.stats(folder)
        except NotADirectoryError:
            return self._rows(folder)
        for name in [name for name in found if name.endswith(DATABASE_SUFFIX)]:
            found[name] = self._as_folder(folder / name, found[name])
        return found

    def database_bytes(self, folder: Path) -> int:
        """Return the bytes of the databases in a folder, or of the one that the folder is.

        Databases are told by their names and not opened. Raises OSError.
        """
        is_one = folder.suffix == DATABASE_SUFFIX
        found = {folder.name: self._files.stat(folder)} if is_one else self._files.stats(folder)
        regular = {name: one for name, one in found.items() if stat.S_ISREG(one.st_mode)}
        return sum(one.st_size for name, one in regular.items() if name.endswith(DATABASE_SUFFIX))

    def why_old(self, folder: Path) -> str | None:
        """Return why a database in a folder, or the folder, is shown as it was; None if none is."""
        return next(
            (why for path, why in self._held.items() if folder in (path, path.parent)), None
        )

    # -- databases ---------------------------------------------------------------------------

    def _as_folder(self, path: Path, found: FileStat) -> FileStat:
        """Return a database as a folder, whose time is that of its newest change."""
        try:
            if not (stat.S_ISREG(found.st_mode) and is_database(path, self._files)):
                return found
            newest = Database(path, self._files).state().mtime_ns
        except FileNotFoundError:
            return found
        except OSError:
            # A look at the sessions says what is wrong with this one, and hides no other.
            newest = found.st_mtime_ns
        mode = stat.S_IFDIR | stat.S_IMODE(found.st_mode)
        return _stat_of(found, st_mode=mode, st_mtime_ns=newest, st_ctime_ns=newest)

    def _row(self, path: Path) -> FileStat:
        """Return one session as a file. Raises FileNotFoundError, OSError."""
        place = stored_place(path)
        is_row = place is not None and place.store.suffix == DATABASE_SUFFIX
        found = self._found(place) if place is not None and is_row else None
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return found

    def _found(self, place: StoredPlace) -> FileStat | None:
        # Without the database there is no session, which is no error.
        file, read = self._files.stat(place.store), self._read.get(place.store)
        store = Database(place.store, self._files)
        if read is not None and read.state == store.state():
            found = read.found.get(place.session_id)
            if read.is_settled or found is not None:
                return found
        try:
            contents = store.contents(place.session_id)
        except SessiondError as error:
            raise _unreadable(error) from error
        if contents is None or not contents.marks:
            return None
        times = [mark.changed_at for mark in contents.marks]
        count = sum(1 + mark.parts for mark in contents.marks)
        return _session(file, contents.session, count, max(times))

    def _rows(self, path: Path) -> dict[str, FileStat]:
        """Return all sessions of a database as files. Raises NotADirectoryError, OSError."""
        if path.suffix != DATABASE_SUFFIX or not is_database(path, self._files):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        store, now = Database(path, self._files), self._files.now()
        state, read = store.state(), self._read.get(path)
        if read is not None and read.is_settled and read.state == state:
            return dict(read.found)
        file = self._files.stat(path)
        try:
            changes = self._changes(path, store, state, now)
        except SessiondError as error:
            is_held = isinstance(error, StorageError | TooLarge) and not is_silence(error)
            if read is not None and is_held:
                # Another program holds the database, say: its sessions are still there.
                self._held[path] = str(error)
                return dict(read.found)
            raise _unreadable(error) from error
        self._held.pop(path, None)
        found = {one.id: _session(file, one, *changed) for one, *changed in changes}
        self._read[path] = _Read(state, found, is_settled(state.mtime_ns, now))
        return dict(found)

    def _changes(
        self, path: Path, store: Database, state: StoreState, now: float
    ) -> list[tuple[StoredSession, int, int]]:
        """Return the changes of a database; a read that was too large is not repeated at each look.

        Raises StorageError, SessionCorrupt, TooLarge.
        """
        before = self._refused.get(path)
        if before is not None and before.fits(state, now):
            # A new one: the trace of an error that is raised again grows, and holds what it has met.
            raise before.error.replacing()
        self._refused.pop(path, None)
        try:
            return store.changes()
        except TooLarge as error:
            self._refused[path] = _Refused(state, now, error.replacing())
            raise


def _session(file: FileStat, session: StoredSession, count: int, changed_at: int) -> FileStat:
    """Return a session of a database as a file without a size.

    Its time is the newest change, with a digest of what else says that the session changed.
    """
    facts = (session.title, session.directory, session.columns.get("revert"), count)
    time = max(changed_at, session.time_updated) * _MS_NS + inode_of(repr(facts)) % _MS_NS
    return _stat_of(
        file, st_ino=inode_of(session.id), st_size=0, st_mtime_ns=time, st_ctime_ns=time
    )


def _stat_of(found: FileStat, **changes: int) -> FileStat:
    fields = {name: getattr(found, name) for name in _Stat.__struct_fields__}
    return structs.replace(_Stat(**fields), **changes)


def _unreadable(error: SessiondError) -> OSError:
    return OSError(errno.ETIMEDOUT if is_silence(error) else errno.EIO, str(error))
