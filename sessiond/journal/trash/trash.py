"""The trash of a profile, which keeps deleted files until they are purged.

Law: a file is under its old name or whole in the trash. A crash may leave both names,
never neither. No file in the trash is overwritten. A name in the trash begins with the
name of the session's file and has one of the forms of `names`. A file with any other name
is neither moved into the trash nor removed from it.
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
from sessiond.journal.profile.names import torn_ending, with_ending, without_number
from sessiond.journal.trash.carrying import carry, copy

_ORIGIN: Final = ".origin"


class Trash:
    """The trash folder of a profile, with moves into it and final removals."""

    def __init__(self, layout: Layout, files: Files) -> None:
        self._layout = layout
        self._files = files
        self._folder = layout.trash
        self._half_purged: set[str] = set()

    def of(self, session_id: str) -> list[Path]:
        """Return all files of a session in the trash. Raises StorageError."""
        return self._layout.trashed(self._files, session_id)

    def take(self, path: Path, name: str, *, note: bool = False) -> Path:
        """Move a file and the torn ends beside it into the trash, durably. Raises StorageError.

        With `note`, an origin note records the file's old path.
        """
        with telling("move to the trash", path):
            # Torn ends go first: if a crash comes between, the session is still there, and the next
            # attempt finds the rest.
            for beside, ending in self._companions(path):
                self._move(beside, self._free(with_ending(name, ending)))
            place = self._free(name)
            if note:
                self._note(path, place)
            return self._move(path, place)

    def _note(self, path: Path, place: Path) -> None:
        """Record, durably, the old path of a file that is about to move into the trash.

        A path inside the profile is relative to it, for the home may be copied or moved.
        """
        # A zero byte separates the two: no path contains one.
        text = b"%b\0%b" % (os.fsencode(place.name), os.fsencode(self._layout.inside(path)))
        fd, unfinished = write_unfinished(self._files, self._folder, [text])
        try:
            name = with_ending(without_number(place.name), _ORIGIN)
            give_name(self._files, unfinished, self._free(name))
        finally:
            close_quietly(self._files, fd)

    def keep(self, path: Path, name: str) -> Path:
        """Give a file a second name in the trash, durably; the first name stays.

        Copies the file where the file system cannot link. Raises StorageError.
        """
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
        """Make all moves into the trash durable, those of failed attempts too.

        Raises StorageError.
        """
        with telling("write", self._folder):
            self._files.fsync_folder(self._folder)
            for folder in self._layout.folders:
                self._files.fsync_folder(folder)

    def ids(self) -> set[str]:
        """Return the ids of all sessions of which `has` may be true. Raises StorageError."""
        return self._layout.ids_in_trash(self._files) | self._half_purged

    def has(self, session_id: str) -> bool:
        """Return whether there is anything of a session to purge. Raises StorageError."""
        return session_id in self._half_purged or bool(self.of(session_id))

    def purge(self, session_id: str) -> None:
        """Remove all files of a session from the trash for good.

        Goes on after a file that cannot be removed. Raises StorageError for the first such file.

        May be repeated until `purged` is called: other records of the session may remain, and a
        power cut may bring removed files back.
        """
        self._half_purged.add(session_id)
        refused: StorageError | None = None
        for path in self.of(session_id):
            try:
                self._remove(path)
            except StorageError as error:
                # The remaining files hold text of the session, too.
                refused = refused or error
        with telling("empty", self._folder):
            self._files.fsync_folder(self._folder)
        if refused is not None:
            raise refused

    def purged(self, session_id: str) -> None:
        """Record that no trace of the session is left, so that its purge is complete."""
        self._half_purged.discard(session_id)

    def _remove(self, path: Path) -> None:
        with telling("remove", path), suppress(FileNotFoundError):
            self._files.unlink(path)

    def _companions(self, path: Path) -> list[tuple[Path, str]]:
        """Return the copies of torn ends that lie beside the file, and the endings of their names."""
        found = [
            (path.with_name(name), torn_ending(name, path.name))
            for name in self._files.listdir(path.parent)
        ]
        return [
            (beside, ending)
            for beside, ending in found
            if ending is not None and is_regular(self._files, beside)
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
            # The new name first: a crash between the two syncs must not lose both names.
            self._files.fsync_folder(self._folder)
            self._files.fsync_folder(path.parent)
        except OSError:
            # A refused move is undone. If undoing fails too, the file is in the trash, whole.
            with suppress(OSError):
                move(self._files, place, path)
            raise
        return place

    def _free(self, name: str) -> Path:
        """Return a free path in the trash: the name, with a number if the name is taken."""
        place, number = self._folder / name, 1
        while is_taken(self._files, place):
            number += 1
            place = self._folder / f"{name}.{number}"
        return place
