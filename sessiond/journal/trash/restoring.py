"""Restoring of deleted sessions: which file comes back from the trash, and to which path.

Law: at each moment a file is under its old name or in the trash. A crash leaves one of the
two names, and no file is replaced. Copies made before a repair stay in the trash, where they
already were before the session was deleted.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from sessiond.journal.disk.failures import telling
from sessiond.journal.disk.files import Files
from sessiond.journal.disk.lookup import is_regular, is_taken
from sessiond.journal.profile.layout import Layout
from sessiond.journal.profile.making import move
from sessiond.journal.profile.names import (
    draft_id_in,
    id_in_name,
    is_origin,
    is_session_in_trash,
    torn_ending,
    trashed_id,
    with_ending,
    without_number,
)
from sessiond.journal.trash.carrying import carry
from sessiond.visible import printable

# A path has at most 4096 bytes.
_NOTE_BYTES_MAX: Final = 8192


class Trashed(Struct, frozen=True):
    """The file of a deleted session in the trash, and its original path, None if unknown."""

    session_id: str
    path: Path
    origin: Path | None


class Restoring:
    """A finder of deleted sessions' files that moves them back."""

    def __init__(self, layout: Layout, files: Files) -> None:
        self._layout = layout
        self._files = files
        self._folder = layout.trash

    def find(self, session_id: str) -> Trashed | None:
        """Return the file that a restore brings back: of several files the newest.

        Raises StorageError.
        """
        found = [one for one in self.all() if one.session_id == session_id]
        return found[0] if found else None

    def all(self) -> list[Trashed]:
        """Return every deleted session once, newest first. Raises StorageError."""
        with telling("list", self._folder):
            try:
                names = self._files.listdir(self._folder)
            except FileNotFoundError:
                names = []
        origins = dict(self._notes(names))
        found: dict[str, Trashed] = {}
        for name in sorted(names, key=_order, reverse=True):
            session_id = trashed_id(name)
            if session_id is None or session_id in found or not is_session_in_trash(name):
                continue
            path = self._folder / name
            if self._layout.is_trashed(self._files, path):
                origin = origins.get(name) or self._origin_in_name(name)
                found[session_id] = Trashed(session_id, path, origin)
        return list(found.values())

    def restore(self, found: Trashed) -> Path:
        """Move a file and its torn ends back to the original path, durably. Raises StorageError."""
        path = found.origin
        assert path is not None, "the caller has looked"
        files, moved = self._files, list[tuple[Path, Path]]()
        with telling("restore", path):
            self._require_free(path)
            if self._layout.has(path) and is_regular(files, found.path):
                # A fresh time keeps the draft limit and the retention from deleting the file again.
                files.touch(found.path)
            try:
                for old, new in [*self._torn_ends(found, path), (found.path, path)]:
                    self._move(old, new)
                    moved.append((old, new))
                files.fsync_folder(path.parent)
                files.fsync_folder(self._folder)
            except OSError:
                # A refused restore is undone. If undoing fails too, the file stays restored, whole.
                for old, new in reversed(moved):
                    with suppress(OSError):
                        self._move(new, old)
                raise
        self._forget_note(found)
        return path

    def _require_free(self, path: Path) -> None:
        if is_taken(self._files, path):
            text = "there is a file of this name by now: move it away, then restore again"
            raise OSError(errno.EEXIST, text)
        if not self._files.exists(path.parent):
            text = f"the folder {printable(path.parent)} is gone: make it, then restore again"
            raise OSError(errno.ENOENT, text)

    def _move(self, old: Path, new: Path) -> None:
        try:
            move(self._files, old, new)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            carry(self._files, old, new)

    def _torn_ends(self, found: Trashed, path: Path) -> Iterator[tuple[Path, Path]]:
        """Yield the torn ends of a file in the trash, each with its original path if free."""
        own = without_number(found.path.name)
        for name in sorted(self._files.listdir(self._folder)):
            ending = torn_ending(without_number(name), own)
            if ending is None or not is_regular(self._files, self._folder / name):
                continue
            place = path.with_name(with_ending(path.name, ending))
            if not is_taken(self._files, place):
                yield self._folder / name, place

    def _origin_in_name(self, name: str) -> Path | None:
        own = without_number(name)
        if id_in_name(own) is not None:
            return self._layout.sessions / own
        return self._layout.pending / own if draft_id_in(own) is not None else None

    def _notes(self, names: list[str]) -> Iterator[tuple[str, Path]]:
        """Yield the trash name and the original path from each readable origin note."""
        for name in sorted(names):
            if is_origin(name):
                noted = self._read_note(self._folder / name)
                if noted is not None:
                    yield noted

    def _read_note(self, path: Path) -> tuple[str, Path] | None:
        """Return the name and the original path in a note; None for an unreadable note."""
        try:
            fd = self._files.open_read(path)
            try:
                name, zero, origin = self._files.pread(fd, _NOTE_BYTES_MAX, 0).partition(b"\0")
            finally:
                self._files.close(fd)
        except OSError:
            return None
        return (os.fsdecode(name), self._layout.here(Path(os.fsdecode(origin)))) if zero else None

    def _forget_note(self, found: Trashed) -> None:
        """Remove the origin notes of a restored file; a note that stays does no harm."""
        with suppress(OSError):
            for name in self._files.listdir(self._folder):
                noted = self._read_note(self._folder / name) if is_origin(name) else None
                if noted is not None and noted[0] == found.path.name:
                    self._files.unlink(self._folder / name)


def _order(name: str) -> tuple[bool, str]:
    """Return the sort key of a name: drafts, which have no time, before sessions by their time."""
    return id_in_name(without_number(name).partition(".from-")[0]) is not None, name
