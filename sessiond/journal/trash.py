"""The trash of a profile: what was deleted stays there until it is purged.

Law: a file is under its old name or whole in the trash; a crash may leave both,
never neither. Nothing in the trash is overwritten. A name there begins with the
name of the session's file, so it says whose it was:

    2026-01-15T10-30-00-000000_<session id>.jsonl
    ….jsonl.torn-<stamp>               what was cut from its end when it was opened
    ….jsonl.before-repair-<stamp>      as it was before session/repair
    ….jsonl.from-<name>                a file that lay outside the profile
    ….jsonl.2                          a second one of the same name
"""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path
from typing import Final

from sessiond.journal.failures import telling
from sessiond.journal.files import Files
from sessiond.journal.layout import Layout
from sessiond.journal.making import write_pieces
from sessiond.journal.scanning import chunks_of

__all__ = ["Trash"]

_NAME_BYTES_MAX: Final = 240
# What a file system says that cannot give one file two names.
_NO_LINKS: Final = frozenset({errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})


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
        """Move a file in, durably, and what lies beside it under its name. Raises StorageError."""
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
                if error.errno not in _NO_LINKS:
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
        """Remove what there is of a session, for good. Raises StorageError.

        Until it is `purged` it can be repeated: its files are gone, but what else knows of it
        may not be done, and a power cut may bring them back.
        """
        self._half_purged.add(session_id)
        with telling("empty", self._folder):
            for path in self.of(session_id):
                self._files.unlink(path)
            self._files.fsync_folder(self._folder)

    def purged(self, session_id: str) -> None:
        """Nothing knows of the session any more."""
        self._half_purged.discard(session_id)

    def _companions(self, path: Path) -> list[Path]:
        names = self._files.listdir(path.parent)
        return [path.with_name(name) for name in names if name.startswith(f"{path.name}.")]

    def _move(self, path: Path, name: str) -> Path:
        place = self._free(name)
        try:
            self._files.rename(path, place)
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
                self._files.rename(place, path)
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
        young = place.with_name(place.name + ".new")
        source = files.open_read(path)
        try:
            # To the end of the file, also where another program goes on writing meanwhile.
            files.close(write_pieces(files, young, chunks_of(files, source)))
        finally:
            files.close(source)
        files.rename(young, place)

    def _free(self, name: str) -> Path:
        """A name that is not taken."""
        name = name.encode(errors="surrogateescape")[:_NAME_BYTES_MAX].decode(errors="replace")
        place, number = self._folder / name, 1
        while self._files.exists(place):
            number += 1
            place = self._folder / f"{name}.{number}"
        return place
