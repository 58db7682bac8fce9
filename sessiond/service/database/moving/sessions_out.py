"""The way of a profile's sessions from a database into files. Blocking."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from sessiond.errors import StorageError
from sessiond.journal.splitter import joined, whole_lines
from sessiond.service.database.database import NO_LINES, Head, SessionDatabase, chained
from sessiond.service.database.moving.notes import (
    MoveNote,
    MoveNotes,
    epoch_of_moved,
    note_of,
)
from sessiond.service.database.moving.way import (
    IN_DOUBT,
    Remark,
    digest_of,
    is_another,
    pieces_of,
    was_changed,
    was_deleted,
)
from sessiond.service.files.store import FileStore
from sessiond.service.log.open_session import OpenSession


class SessionsOut:
    """Sessions from a database into the profile's files; the database keeps them in its trash."""

    def __init__(self, database: SessionDatabase, files: FileStore) -> None:
        self._database = database
        self._files = files
        self._notes = MoveNotes(files)

    def names(self) -> list[str]:
        """Return the ids of the database's sessions, and of those whose move was interrupted."""
        heads = self._database.changes(0).heads
        there = [one.session_id for one in heads if not one.is_deleted]
        return [*dict.fromkeys([*there, *self._notes.ids()])]

    def move(self, name: str) -> Remark | None:
        """Move a session. Raises StorageError, retryable, if another daemon has changed the session."""
        earlier = self._notes.find(name)
        remark = None if earlier is None else self._settled(earlier)
        head = self._database.find(name)
        if head is not None and self._files.has(name):
            # The delete of an earlier move may still be under way, and takes no effect behind this.
            head = self._database.fence(head.number)
        if head is None or head.is_deleted:
            return remark
        opened = self._made(head)
        try:
            if digest_of(pieces_of(opened.journal)) != head.digest:
                raise is_another(name, "the profile")
            self._notes.keep(note_of(head))
            if head.place == "archived" and not opened.archived:
                self._files.archive(opened)
        finally:
            self._files.settle(opened)
            opened.journal.close()
        moved = epoch_of_moved(head.epoch)
        is_deleted = self._database.delete(head, unless_appended=True, epoch=moved) is not None
        if not is_deleted:
            self._files.discard(name, None)
        self._notes.remove(note_of(head))
        if not is_deleted:
            raise was_changed(name)
        return None

    def _settled(self, note: MoveNote) -> Remark | None:
        """Settle an interrupted move, unless the session is still in the database."""
        row = self._row(note)
        if row is not None and not row.is_deleted:
            return None
        if row is None or row.epoch not in {note.epoch, epoch_of_moved(note.epoch)}:
            remark: Remark | None = IN_DOUBT
        else:
            remark = self._deleted(note) if row.epoch == note.epoch else None
        self._notes.remove(note)
        return remark

    def _row(self, note: MoveNote) -> Head | None:
        """Return the row of a session that was on its way; None in another database."""
        rows = self._database.heads([note.number])
        if [row.session_id for row in rows] != [note.session_id]:
            return None
        # The delete of the earlier move may still be under way, and takes no effect behind this.
        return self._database.fence(note.number)

    def _deleted(self, note: MoveNote) -> Remark:
        """Bring the file of a deleted session to the trash, if the file is still as the move has made it."""
        session_id = note.session_id
        if not self._files.has(session_id):
            return was_deleted(session_id, "none")
        if not self._is_as_noted(note):
            return was_deleted(session_id, "other")
        self._files.discard(session_id, None)
        return was_deleted(session_id, "trashed")

    def _is_as_noted(self, note: MoveNote) -> bool:
        """Return whether a session's file is what a move has made, and nothing else."""
        opened = self._files.open(note.session_id)
        with closing(opened.journal):
            return self._is_own(opened) and digest_of(pieces_of(opened.journal)) == note.digest

    def _made(self, head: Head) -> OpenSession:
        """Return the open file of a session, which an earlier move may have made."""
        session_id = head.session_id
        if self._files.has(session_id):
            opened = self._files.open(session_id)
            if not self._is_left_over(opened, head):
                return opened
            opened.journal.close()
            self._files.discard(session_id, None)
        self._notes.keep(note_of(head))
        stored = self._sound(head)
        if head.place != "draft":
            return self._files.make(session_id, stored)
        path = self._files.profile.layout.pending_path(session_id)
        self._files.write_new(path, map(joined, stored))
        return self._files.open(session_id)

    def _is_left_over(self, opened: OpenSession, head: Head) -> bool:
        """Return whether another daemon went on with the session behind an earlier move to this file."""
        count = opened.journal.line_count
        if not (0 < count <= head.seq and self._is_own(opened)):
            return False
        first = map(whole_lines, self._database.pieces(head.number, 0, count - 1))
        return digest_of(first) == digest_of(pieces_of(opened.journal))

    def _is_own(self, opened: OpenSession) -> bool:
        """Return whether a session's file is the profile's, and whole."""
        folders, path = self._files.profile.layout.folders, opened.path
        return path is not None and path.parent in folders and opened.journal.slack_bytes == 0

    def _sound(self, head: Head) -> Iterator[list[bytes]]:
        """Yield the lines of a session. Raises StorageError if they are not those that the row counts."""
        digest = NO_LINES
        for lines in map(whole_lines, self._database.pieces(head.number, 0, head.seq)):
            digest = chained(digest, lines)
            yield lines
        if digest != head.digest:
            text = f"{head.session_id}: the lines are not those that the row counts"
            then = f"see `sessiond verify {head.session_id}`"
            raise StorageError(
                f"{text}; {then}", errno="EIO", path=head.session_id, retryable=False
            )
