"""The trash of a profile: what was deleted stays there until it is purged.

Law: a file is under its old name or whole in the trash; a crash may leave both,
never neither. Nothing in the trash is overwritten. A name there begins with the
name of the session's file and has one of the forms of `names`: a file of any other name
is neither moved here nor removed from here.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from sessiond.errors import StorageError
from sessiond.journal.disk.descriptor import close_quietly
from sessiond.journal.disk.failures import telling
from sessiond.journal.disk.files import Files
from sessiond.journal.disk.lookup import is_regular, is_taken
from sessiond.journal.profile.layout import Layout
from sessiond.journal.profile.making import NO_LINKS, give_name, move, write_unfinished
from sessiond.journal.profile.names import is_torn_end, without_number
from sessiond.journal.trash.carrying import carry, copy

__all__ = ["Trash"]

_NAME_BYTES_MAX: Final = 240
_ORIGIN: Final = ".origin"


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

    def take(self, path: Path, name: str, *, note: bool = False) -> Path:
        """Move a file in, durably, with the copies of torn ends beside the file. Raises StorageError.

        With `note` a file of its own says where the file lay.
        """
        with telling("move to the trash", path):
            # Copies of torn ends go first: if this is cut off the session is still there, and
            # the next attempt finds them all.
            for beside in self._companions(path):
                self._move(beside, self._free(name + beside.name.removeprefix(path.name)))
            place = self._free(name)
            if note:
                self._note(path, place)
            return self._move(path, place)

    def _note(self, path: Path, place: Path) -> None:
        """Write down, durably, where the file lay that is about to get a place in here."""
        # No name has a zero byte in it.
        text = b"%b\0%b" % (os.fsencode(place.name), os.fsencode(path))
        fd, unfinished = write_unfinished(self._files, self._folder, [text])
        try:
            own = without_number(place.name).encode()[: _NAME_BYTES_MAX - len(_ORIGIN)]
            give_name(self._files, unfinished, self._free(own.decode(errors="replace") + _ORIGIN))
        finally:
            close_quietly(self._files, fd)

    def keep(self, path: Path, name: str) -> Path:
        """Give a file a second name in here, durably, its own stays. Raises StorageError."""
        with telling("keep a copy in the trash of", path):
            place = self._free(name)
            try:
                self._files.link(path, place)
            except OSError as error:
                if error.errno not in NO_LINKS:
                    raise
                copy(self._files, path, place)
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

    def _move(self, path: Path, place: Path) -> Path:
        try:
            move(self._files, path, place)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            carry(self._files, path, place)
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

    def _free(self, name: str) -> Path:
        """A name that is not taken."""
        name = name.encode(errors="surrogateescape")[:_NAME_BYTES_MAX].decode(errors="replace")
        place, number = self._folder / name, 1
        while is_taken(self._files, place):
            number += 1
            place = self._folder / f"{name}.{number}"
        return place
