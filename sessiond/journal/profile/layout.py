"""The folders and names of a profile.

Law: paths are made and taken apart here and nowhere else; the forms of the names themselves
stand in `names`.

    <data>/                       $SESSIOND_HOME, else the platform's user data directory
      locks/<device>-<inode>      who has a session file open, for every profile of this home
      profiles/<profile>/
        sessions/2026-01-15T10-30-00-000000_<session id>.jsonl
        archive/                          the same names: kept, but not in the way
        pending/<session id>.jsonl        drafts: no assistant message yet
        trash/                            what was deleted, until it is purged
        catalog.sqlite                    an index that can be thrown away
        search.sqlite                     another, of what was said; made by the first search
        daemon.lock                       one daemon per profile
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from sessiond.errors import StorageError
from sessiond.journal.disk.failures import storage_error, telling
from sessiond.journal.disk.files import Files
from sessiond.journal.disk.lookup import is_regular
from sessiond.journal.profile.names import (
    SUFFIX,
    draft_id_in,
    id_in_name,
    is_copy_in_trash,
    is_torn_end,
    is_unfinished,
    trashed_id,
)
from sessiond.model.ids import is_session_id

__all__ = ["DEFAULT_PROFILE", "Layout", "data_home", "is_profile"]

DEFAULT_PROFILE: Final = "default"
_PROFILE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)


def is_profile(name: str) -> bool:
    """Whether a name may be a profile, and so a folder."""
    return _PROFILE.fullmatch(name) is not None


def data_home(environ: Mapping[str, str]) -> Path:
    """Where all profiles live."""
    named = Path(environ.get("SESSIOND_HOME", "")).expanduser()
    # Relative to which folder, the next program that is started elsewhere could not know.
    if named.is_absolute():
        return named
    # Only the program that has to find its home needs the library.
    from platformdirs import user_data_path

    return user_data_path("sessiond", appauthor=False)


class Layout:
    """The paths of one profile. Makes no call but where it is given `files`."""

    def __init__(self, home: Path, profile: str = DEFAULT_PROFILE) -> None:
        assert is_profile(profile), "the command line refuses such a profile"
        self.home = home
        self.profile = profile
        self.root = home / "profiles" / profile
        self.sessions = self.root / "sessions"
        self.archive = self.root / "archive"
        self.pending = self.root / "pending"
        self.trash = self.root / "trash"
        self.folders = (self.sessions, self.archive, self.pending)
        self.locks = home / "locks"
        self.catalog = self.root / "catalog.sqlite"
        self.search = self.root / "search.sqlite"
        self.daemon_lock = self.root / "daemon.lock"

    def make_folders(self, files: Files) -> None:
        """Make what is missing, durably: a synced file is lost with an unsynced folder.

        Below the home, which may be a folder that somebody chose, every folder is 0700.
        Raises StorageError.
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

    def _make_all(self, files: Files) -> None:
        self._make_home(files)
        kept = (*self.folders, self.trash)
        for folder in (self.locks, self.root.parent, self.root, *kept):
            files.make_folder(folder)
        # Also where all were there: whoever made or renamed something may have been cut off
        # before this.
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
        """The place of a session, `stamp` being the moment it was begun."""
        assert is_session_id(session_id), "ids are checked at the edge"
        return self.sessions / f"{stamp}_{session_id}{SUFFIX}"

    def pending_path(self, session_id: str) -> Path:
        """The place of a draft."""
        assert is_session_id(session_id), "ids are checked at the edge"
        return self.pending / f"{session_id}{SUFFIX}"

    def is_pending(self, path: Path) -> bool:
        """Whether the file is a draft of this profile."""
        return path.parent == self.pending

    def trash_name(self, path: Path, session_id: str, stamp: str) -> str:
        """What the file of a session is called in the trash."""
        if self.id_of(path) == session_id:
            return path.name
        return f"{self.session_path(session_id, stamp).name}.from-{path.name}"

    def trashed_id(self, path: Path) -> str | None:
        """Whose a file in the trash is; None if its name does not say."""
        return trashed_id(path.name)

    def trashed(self, files: Files, session_id: str) -> list[Path]:
        """What is in the trash of a session. Raises StorageError."""
        named = [
            self.trash / name
            for name in sorted(_names(files, self.trash))
            if trashed_id(name) == session_id
        ]
        return [path for path in named if self.is_trashed(files, path)]

    def is_trashed(self, files: Files, path: Path) -> bool:
        """Whether sessiond put the file into the trash. Raises StorageError."""
        # A session's file may have been a link, which delete moved as it was. Copies are files.
        may_be_link = not is_copy_in_trash(path.name)
        return trashed_id(path.name) is not None and is_regular(files, path, or_link=may_be_link)

    def is_archived(self, path: Path) -> bool:
        """Whether the file is an archived session of this profile."""
        return path.parent == self.archive

    def id_of(self, path: Path) -> str | None:
        """The session id in a name that was made here; None for any other file."""
        if path.parent in (self.sessions, self.archive):
            return id_in_name(path.name)
        if path.parent == self.pending:
            return draft_id_in(path.name)
        return None

    # -- what is there -------------------------------------------------------------

    def find(self, files: Files, session_id: str) -> Path | None:
        """The file of a session, archived or not, or of a draft. Raises StorageError."""
        found = self.find_all(files, session_id)
        return found[0] if found else None

    def find_all(self, files: Files, session_id: str) -> list[Path]:
        """Every file of this id, the one that is the session first. Raises StorageError."""
        # Of two files that a copy gave the same id, the older name is the session.
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
        """The ids of the sessions, the latest begun first, archived ones last. Raises StorageError."""
        names = (
            name
            for folder in (self.sessions, self.archive)
            for name in sorted(_names(files, folder), reverse=True)
        )
        found = (id_in_name(name) for name in names)
        return list(dict.fromkeys(session_id for session_id in found if session_id is not None))

    def scan(self, files: Files, *, drafts: bool) -> Iterator[Path]:
        """Every file that may be a session, archived ones and what somebody dropped there too.

        Raises StorageError.
        """
        for folder in (self.sessions, self.archive):
            for name in _names(files, folder):
                if name.endswith(SUFFIX) and not name.startswith("."):
                    yield folder / name
        if drafts:
            yield from self.drafts(files)

    def half_made(self, files: Files) -> Iterator[Path]:
        """Every file that sessiond was making when it was ended, before the file had its name."""
        for folder in (*self.folders, self.trash):
            for name in _names(files, folder):
                if is_unfinished(name) and is_regular(files, folder / name):
                    yield folder / name

    def cut_ends(self, files: Files) -> Iterator[Path]:
        """Every copy of a torn end that lies beside a session or a draft."""
        for folder in self.folders:
            for name in sorted(_names(files, folder)):
                own = name[: name.find(SUFFIX) + len(SUFFIX)]
                if self.id_of(folder / own) is not None and is_torn_end(name, own):
                    yield folder / name

    def drafts(self, files: Files) -> Iterator[Path]:
        """The files of drafts."""
        for name in _names(files, self.pending):
            if draft_id_in(name) is not None:
                yield self.pending / name


def _names_ending(files: Files, folder: Path, ending: str) -> list[str]:
    # Ids may contain "_", so the ending alone does not decide; but it leaves few to look at.
    return [name for name in _names(files, folder) if name.endswith(ending)]


def _names(files: Files, folder: Path) -> list[str]:
    try:
        return files.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise storage_error(error, "list", folder) from error
