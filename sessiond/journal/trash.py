"""The trash of a profile: what was deleted stays there until it is purged.

Law: a file is under its old name or whole in the trash; a crash may leave both,
never neither. Nothing in the trash is overwritten. A name there begins with the
name of the session's file and has one of the forms of `names`: a file of any other name
is neither moved here nor removed from here.
"""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path
from typing import Final

from sessiond.errors import StorageError
from sessiond.journal.descriptor import close_quietly
from sessiond.journal.failures import telling
from sessiond.journal.files import Files
from sessiond.journal.layout import Layout
from sessiond.journal.lookup import is_regular, is_taken
from sessiond.journal.making import NO_LINKS, give_name, move, remove_own, write_unfinished
from sessiond.journal.names import is_torn_end
from sessiond.journal.regular import open_regular
from sessiond.journal.scanning import chunks_of

__all__ = ["Trash"]

_NAME_BYTES_MAX: Final = 240


class Trash:
    """Takes files in, and lets go of them for good."""

    def __init__(self, layout: Layout, files: Files) -> None:
        self._layout = layout
        self._files = files
        self._folder = layout.trash
        self._half_purged: set[str] = set()

    def of(self, session_id: str) -> list[Path]:
        """Everything of a session that is in the trash. Raises StorageError."""
        return self._layout.trashed(self._files, session_id)

    def take(self, path: Path, name: str) -> Path:
        """Move a file in, durably, with the copies of torn ends beside the file. Raises StorageError."""
        with telling("move to the trash", path):
            # Copies of torn ends go first: if this is cut off the session is still there, and
            # the next attempt finds them all.
            for beside in self._companions(path):
                self._move(beside, name + beside.name.removeprefix(path.name))
            return self._move(path, name)

    def keep(self, path: Path, name: str) -> Path:
        """Give a file a second name in here, durably, its own stays. Raises StorageError."""
        with telling("keep a copy in the trash of", path):
            place = self._free(name)
            try:
                self._files.link(path, place)
            except OSError as error:
                if error.errno not in NO_LINKS:
                    raise
                self._copy(path, place)
            self._files.fsync_folder(self._folder)
            return place

    def settle(self) -> None:
        """Make durable what was moved in, also by an attempt that failed half-way."""
        with telling("write", self._folder):
            self._files.fsync_folder(self._folder)
            for folder in self._layout.folders:
                self._files.fsync_folder(folder)

    def has(self, session_id: str) -> bool:
        """Whether there is anything of a session to be purged. Raises StorageError."""
        return session_id in self._half_purged or bool(self.of(session_id))

    def purge(self, session_id: str) -> None:
        """Remove what there is of a session, for good; also what follows a file that stays.

        Raises StorageError for the first file that could not be removed.

        Until it is `purged` it can be repeated: its files are gone, but what else knows of it
        may not be done, and a power cut may bring them back.
        """
        self._half_purged.add(session_id)
        refused: StorageError | None = None
        for path in self.of(session_id):
            try:
                self._remove(path)
            except StorageError as error:
                # The other files have words of the session, too.
                refused = refused or error
        with telling("empty", self._folder):
            self._files.fsync_folder(self._folder)
        if refused is not None:
            raise refused

    def purged(self, session_id: str) -> None:
        """Nothing knows of the session any more."""
        self._half_purged.discard(session_id)

    def _remove(self, path: Path) -> None:
        with telling("remove", path), suppress(FileNotFoundError):
            self._files.unlink(path)

    def _companions(self, path: Path) -> list[Path]:
        """The copies of torn ends that openings of the file have made beside the file."""
        found = [path.with_name(name) for name in self._files.listdir(path.parent)]
        return [
            beside
            for beside in found
            if is_torn_end(beside.name, path.name) and is_regular(self._files, beside)
        ]

    def _move(self, path: Path, name: str) -> Path:
        place = self._free(name)
        try:
            move(self._files, path, place)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            self._carry(path, place)
            self._files.fsync_folder(path.parent)
            return place
        try:
            # The new name first: a crash between the two must not find neither.
            self._files.fsync_folder(self._folder)
            self._files.fsync_folder(path.parent)
        except OSError:
            # What was refused did not happen. If that fails as well it is in the trash, whole.
            with suppress(OSError):
                move(self._files, place, path)
            raise
        return place

    def _carry(self, path: Path, place: Path) -> None:
        """The same to another device: the copy is whole and durable before the original goes."""
        self._copy(path, place)
        try:
            self._files.fsync_folder(self._folder)
            self._require_same_size(path, place)
            self._files.unlink(path)
        except OSError:
            with suppress(OSError):
                self._files.unlink(place)
            raise

    def _require_same_size(self, path: Path, copy: Path) -> None:
        if self._files.stat(path).st_size != self._files.stat(copy).st_size:
            raise OSError(errno.EBUSY, "another program wrote to it")

    def _copy(self, path: Path, place: Path) -> None:
        files = self._files
        source = open_regular(files, path)
        try:
            # To the end of the file, also where another program goes on writing meanwhile.
            fd, unfinished = write_unfinished(files, place.parent, chunks_of(files, source))
        finally:
            close_quietly(files, source)
        try:
            give_name(files, unfinished, place)
        except OSError:
            for name in (unfinished, place):
                remove_own(files, name, fd)
            raise
        finally:
            close_quietly(files, fd)

    def _free(self, name: str) -> Path:
        """A name that is not taken."""
        name = name.encode(errors="surrogateescape")[:_NAME_BYTES_MAX].decode(errors="replace")
        place, number = self._folder / name, 1
        while is_taken(self._files, place):
            number += 1
            place = self._folder / f"{name}.{number}"
        return place
