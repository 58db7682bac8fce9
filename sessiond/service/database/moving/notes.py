"""Notes of sessions that are on their way from a database into the profile's files. Blocking.

Law: a note is durable before the file of its session is there, and stays until the row is deleted. So behind
an interruption the note tells the copy from a session of the profile, and the row tells who deleted it.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from sessiond import typed
from sessiond.model.digests import key_digest
from sessiond.service.database.database import Head
from sessiond.service.files.store import FileStore
from sessiond.state.codec import Damaged
from sessiond.state.folder import DocumentFolder

_MOVED: Final = ".moved"


class MoveNote(Struct, frozen=True):
    """A session that leaves a database, at the position at which its lines were copied."""

    session_id: str
    number: int
    epoch: str
    digest: bytes


class MoveNotes:
    """The notes of one profile, a file each. One that cannot be read is put aside."""

    def __init__(self, store: FileStore) -> None:
        profile = store.profile
        self._folder: DocumentFolder[MoveNote] = DocumentFolder(
            profile.files,
            profile.layout.moves,
            _decoded,
            stamp=profile.environment.file_stamp,
            report=profile.environment.report_trouble,
        )

    def ids(self) -> list[str]:
        """Return the ids of the sessions that have a note. Raises StorageError."""
        notes = map(self._folder.load, self._folder.namespaces())
        return [note.session_id for note in notes if note is not None]

    def find(self, session_id: str) -> MoveNote | None:
        """Return the note of a session; None without one. Raises StorageError."""
        return self._folder.load(key_digest(session_id))

    def keep(self, note: MoveNote) -> None:
        """Note a session, durably, in the place of an earlier note. Raises StorageError."""
        if self.find(note.session_id) != note:
            self._folder.replace(key_digest(note.session_id), msgspec.json.encode(note))

    def remove(self, note: MoveNote) -> None:
        """Remove the note of a session. Raises StorageError."""
        self._folder.remove(key_digest(note.session_id))


def note_of(head: Head) -> MoveNote:
    """Return the note of a session that is copied at its row's position."""
    return MoveNote(head.session_id, head.number, head.epoch, head.digest)


def epoch_of_moved(epoch: str) -> str:
    """Return the epoch that a row gets in the delete of its move, and in no other delete."""
    return f"{epoch}{_MOVED}"


def epoch_before_move(epoch: str) -> str:
    """Return the epoch that a row had before any move deleted it."""
    return epoch.partition(_MOVED)[0]


def _decoded(data: bytes, namespace: str) -> MoveNote:
    del namespace
    try:
        return typed.decode(data, MoveNote)
    except msgspec.DecodeError:
        raise Damaged("it is no note of a move") from None
