"""The folders and paths of a profile.

Law: only this module makes paths and takes them apart; `names` has the forms of the file names.

    <data>/                       $SESSIOND_HOME, else the platform's user data directory
      locks/<device>-<inode>      owners of open session files, for every profile of this home
      profiles/<profile>/
        sessions/2026-01-15T10-30-00-000000_<session id>.jsonl
        archive/                          archived sessions, named as in sessions/
        pending/<session id>.jsonl        drafts: no assistant message yet
        pending/<session id>.place        where the file of a draft for a root belongs
        trash/                            deleted sessions until they are purged
        catalog.sqlite                    the index of files; may be thrown away
        search.sqlite                     the full-text index; made in the background
        search.sqlite.next                one that is being made to take the place of that of an older version
        roots.json                        the folders that clients added as roots
        state/<namespace>.json            the state store; made by its first write
        moves/<digest of id>.json         sessions on their way out of a database
        indexes/<session id>.index        indexes of large sessions; may be thrown away
        indexes/<session id>.lines        lines of another agent's large file, which its index goes on behind
        copies/<number>.lines             lines of large sessions of a database; may be thrown away
        copies/<number>.index             indexes of these lines
        secrets/<namespace>.json          secrets, encrypted; made by the first one
        daemon.lock                       the lock of the profile's one daemon
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from sessiond.errors import StorageError
from sessiond.journal.disk.failures import storage_error, telling
from sessiond.journal.disk.files import Files
from sessiond.journal.disk.lookup import is_regular
from sessiond.journal.profile.names import (
    SUFFIX,
    draft_id_in,
    from_elsewhere,
    id_in_name,
    is_copy_in_trash,
    is_unfinished,
    note_id_in,
    note_name,
    torn_ending,
    trashed_id,
)
from sessiond.model.ids import is_session_id
from sessiond.system.base import NAME_BYTES_MAX

DEFAULT_PROFILE: Final = "default"
_INDEX: Final = ".index"
_PROFILE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)


def is_profile(name: str) -> bool:
    """Return whether a name may be the name of a profile, and so of a folder."""
    return _PROFILE.fullmatch(name) is not None


def data_home(environ: Mapping[str, str]) -> Path:
    """Return the folder of all profiles."""
    named = Path(environ.get("SESSIOND_HOME", "")).expanduser()
    # A relative path would mean another folder for a program started elsewhere.
    if named.is_absolute():
        return named
    # The import costs time, and a program whose home is named does without it.
    from platformdirs import user_data_path

    return user_data_path("sessiond", appauthor=False)


class Layout:
    """The paths of one profile. Only methods that take `files` touch the disk."""

    def __init__(self, home: Path, profile: str = DEFAULT_PROFILE) -> None:
        assert is_profile(profile), "the command line refuses such a profile"
        self.home = home
        self.profile = profile
        self.root = home / "profiles" / profile
        self.sessions = self.root / "sessions"
        self.archive = self.root / "archive"
        self.pending = self.root / "pending"
        self.trash = self.root / "trash"
        self.indexes = self.root / "indexes"
        self.copies = self.root / "copies"
        self.state = self.root / "state"
        self.moves = self.root / "moves"
        self.secrets = self.root / "secrets"
        self.folders = (self.sessions, self.archive, self.pending)
        self._below = f"{self.root}/"
        self.locks = home / "locks"
        self.catalog = self.root / "catalog.sqlite"
        self.search = self.root / "search.sqlite"
        self.roots = self.root / "roots.json"
        self.daemon_lock = self.root / "daemon.lock"

    def make_folders(self, files: Files) -> None:
        """Make missing folders, durably: an unsynced folder would lose the synced files in it.

        Every folder below the home is 0700. An existing home keeps its mode, for the user may have
        chosen it. Raises StorageError.
        """
        try:
            self._make_all(files)
        except OSError as error:
            told = storage_error(error, "use", self.home)
            where = f" at {error.filename}" if error.filename else ""
            raise StorageError(
                f"the data folder {self.home} cannot be used: {error.strerror}{where};"
                " name another with --home or $SESSIOND_HOME",
                **told.data(),
            ) from error

    def require_room(self) -> None:
        """Raise OSError unless each session's file may have any name of NAME_BYTES_MAX bytes."""
        size = len(os.fsencode(self.home))
        inner = len(os.fsencode(self.sessions)) - size + len("/") + NAME_BYTES_MAX
        # The bound of the system counts the zero byte at the end of a path.
        most = os.pathconf("/", "PC_PATH_MAX") - 1 - inner
        if size > most:
            text = f"its path has {size} bytes, and more than {most} leave no room for names in it"
            raise OSError(errno.ENAMETOOLONG, text)

    def _make_all(self, files: Files) -> None:
        self.require_room()
        self._make_home(files)
        for folder in (self.locks, self.root.parent, self.root):
            files.make_folder(folder)
        # A new folder of files is empty. An existing one is synced: an earlier daemon may have
        # ended before its sync.
        kept = [each for each in (*self.folders, self.trash) if not files.make_folder(each)]
        for parent in (self.home, self.root.parent, self.root, *kept):
            files.fsync_folder(parent)

    def _make_home(self, files: Files) -> None:
        missing: list[Path] = []
        folder = self.home
        while not files.exists(folder):
            missing.append(folder)
            folder = folder.parent
        for folder in reversed(missing):
            files.make_folder(folder)
            files.fsync_folder(folder.parent)

    # -- names -------------------------------------------------------------------

    def session_path(self, session_id: str, stamp: str) -> Path:
        """Return the path of a session; `stamp` is the moment of its creation."""
        assert is_session_id(session_id), "ids are checked at the edge"
        return self.sessions / f"{stamp}_{session_id}{SUFFIX}"

    def pending_path(self, session_id: str) -> Path:
        """Return the path of a draft."""
        assert is_session_id(session_id), "ids are checked at the edge"
        return self.pending / f"{session_id}{SUFFIX}"

    def note_path(self, session_id: str) -> Path:
        """Return the path of the note that says where the file of a draft belongs."""
        assert is_session_id(session_id), "ids are checked at the edge"
        return self.pending / note_name(session_id)

    def draft_notes(self, names: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yield the notes among the names in `pending`, each with the id of its draft."""
        for name in names:
            draft_id = note_id_in(name)
            if draft_id is not None:
                yield draft_id, name

    def inside(self, path: Path) -> Path:
        """Return a path of this profile relative to the profile's folder; any other path as it is."""
        return path.relative_to(self.root) if path.is_relative_to(self.root) else path

    def here(self, path: Path) -> Path:
        """Return the path that `inside` made relative, and any other path as it is.

        Earlier versions noted whole paths. Such a path of a profile of this name elsewhere means this profile,
        which was copied or moved.
        """
        if not path.is_absolute():
            return self.root / path
        is_profile = path.parts[-4:-2] == self.root.parts[-2:]
        own = {folder.name for folder in self.folders}
        return self.root / Path(*path.parts[-2:]) if is_profile and path.parts[-2] in own else path

    def is_pending(self, path: Path) -> bool:
        """Return whether the file is a draft of this profile."""
        return str(path).startswith(self._below) and path.parent == self.pending

    def index_path(self, session_id: str) -> Path:
        """Return the path of the kept index of a session."""
        assert is_session_id(session_id), "ids are checked at the edge"
        return self.indexes / f"{session_id}{_INDEX}"

    def copied_index_path(self, number: str) -> Path:
        """Return the path of the kept index of a session of a database."""
        return self.copies / f"{number}{_INDEX}"

    def indexed_ids(self, files: Files) -> list[str]:
        """Return the ids of all sessions with a kept index. Raises StorageError."""
        names = _names_ending(files, self.indexes, _INDEX)
        found = [name.removesuffix(_INDEX) for name in names]
        return [session_id for session_id in found if is_session_id(session_id)]

    def trash_name(self, path: Path, session_id: str, stamp: str) -> str:
        """Return the name that a session's file gets in the trash."""
        if self.id_of(path) == session_id:
            return path.name
        return from_elsewhere(self.session_path(session_id, stamp).name, path.name)

    def trashed_id(self, path: Path) -> str | None:
        """Return the session id of a file in the trash; None if its name does not have one."""
        return trashed_id(path.name)

    def trashed(self, files: Files, session_id: str) -> list[Path]:
        """Return the files of a session in the trash. Raises StorageError."""
        named = [
            self.trash / name
            for name in sorted(_names(files, self.trash))
            if trashed_id(name) == session_id
        ]
        return [path for path in named if self.is_trashed(files, path)]

    def ids_in_trash(self, files: Files) -> set[str]:
        """Return the session ids in the names of what is in the trash. Raises StorageError."""
        ids = map(trashed_id, _names(files, self.trash))
        return {session_id for session_id in ids if session_id is not None}

    def is_trashed(self, files: Files, path: Path) -> bool:
        """Return whether sessiond put the file into the trash. Raises StorageError."""
        # A session's file may have been a link, which delete moved unchanged. Copies are files.
        may_be_link = not is_copy_in_trash(path.name)
        return trashed_id(path.name) is not None and is_regular(files, path, or_link=may_be_link)

    def is_archived(self, path: Path) -> bool:
        """Return whether the file is an archived session of this profile."""
        return str(path).startswith(self._below) and path.parent == self.archive

    def has(self, path: Path) -> bool:
        """Return whether the file lies in one of the folders of this profile's sessions."""
        # Most files of a first list are others': a text tells that faster than a `Path`.
        return str(path).startswith(self._below) and path.parent in self.folders

    def id_of(self, path: Path) -> str | None:
        """Return the session id in a path that this class makes; None for any other path."""
        if path.parent in (self.sessions, self.archive):
            return id_in_name(path.name)
        if path.parent == self.pending:
            return draft_id_in(path.name)
        return None

    # -- what is there -------------------------------------------------------------

    def find(self, files: Files, session_id: str) -> Path | None:
        """Return the file of a session, archived or not, or of a draft. Raises StorageError."""
        found = self.find_all(files, session_id)
        return found[0] if found else None

    def find_all(self, files: Files, session_id: str) -> list[Path]:
        """Return every file of this id; the first is the session. Raises StorageError."""
        # If a copied file has the id of the original, the file with the older name is the session.
        found = [
            folder / name
            for folder in (self.sessions, self.archive)
            for name in sorted(_names_ending(files, folder, f"_{session_id}{SUFFIX}"))
            if id_in_name(name) == session_id
        ]
        draft = self.pending_path(session_id) if is_session_id(session_id) else None
        if draft is not None:
            with telling("look for", draft):
                found += [draft] if files.exists(draft) else []
        return found

    def session_ids(self, files: Files) -> list[str]:
        """Return the ids of all sessions, newest first, archived ones last. Raises StorageError."""
        names = (
            name
            for folder in (self.sessions, self.archive)
            for name in sorted(_names(files, folder), reverse=True)
        )
        found = (id_in_name(name) for name in names)
        return list(dict.fromkeys(session_id for session_id in found if session_id is not None))

    def scan(self, files: Files, *, drafts: bool) -> Iterator[Path]:
        """Yield every file that may be a session, archived or not.

        Files that users put into the folders are included. Raises StorageError.
        """
        for folder in (self.sessions, self.archive):
            for name in _names(files, folder):
                if name.endswith(SUFFIX) and not name.startswith("."):
                    yield folder / name
        if drafts:
            yield from self.drafts(files)

    def half_made(self, files: Files) -> Iterator[Path]:
        """Yield every unfinished new file that an earlier daemon left. Raises StorageError."""
        for folder in (
            *self.folders,
            self.trash,
            self.indexes,
            self.copies,
            self.state,
            self.moves,
            self.secrets,
        ):
            for name in _names(files, folder):
                if is_unfinished(name) and is_regular(files, folder / name):
                    yield folder / name

    def cut_ends(self, files: Files) -> Iterator[Path]:
        """Yield every copy of a torn end that lies beside a session or a draft.

        Raises StorageError.
        """
        for folder in self.folders:
            for name in sorted(_names(files, folder)):
                own = name[: name.find(SUFFIX) + len(SUFFIX)]
                if self.id_of(folder / own) is not None and torn_ending(name, own):
                    yield folder / name

    def drafts(self, files: Files) -> Iterator[Path]:
        """Yield the files of drafts. Raises StorageError."""
        for name in _names(files, self.pending):
            if draft_id_in(name) is not None:
                yield self.pending / name


def _names_ending(files: Files, folder: Path, ending: str) -> list[str]:
    # Ids may contain "_", so the caller checks the few names that have the ending.
    return [name for name in _names(files, folder) if name.endswith(ending)]


def _names(files: Files, folder: Path) -> list[str]:
    try:
        return files.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise storage_error(error, "list", folder) from error
