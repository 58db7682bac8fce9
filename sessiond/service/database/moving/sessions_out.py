"""The way of a profile's sessions from a database into files. Blocking."""

from __future__ import annotations

from collections.abc import Iterator

from sessiond.errors import StorageError
from sessiond.journal.splitter import joined, whole_lines
from sessiond.service.database.database import NO_LINES, Head, SessionDatabase, chained
from sessiond.service.database.moving.way import digest_of, is_another, pieces_of, was_changed
from sessiond.service.files.store import FileStore
from sessiond.service.log.open_session import OpenSession

__all__ = ["SessionsOut"]


class SessionsOut:
    """Sessions from a database into the profile's files; the database keeps them in its trash."""

    def __init__(self, database: SessionDatabase, files: FileStore) -> None:
        self._database = database
        self._files = files

    def names(self) -> list[str]:
        """Return the ids of the database's sessions."""
        return [one.session_id for one in self._database.changes(0).heads if not one.is_deleted]

    def move(self, name: str) -> None:
        """Move a session. Raises StorageError, retryable, if another daemon has changed the session."""
        head = self._database.find(name)
        if head is not None and self._files.has(name):
            # The delete of an earlier move may still be under way, and takes no effect behind this.
            head = self._database.fence(head.number)
        if head is None or head.is_deleted:
            return
        opened = self._made(head)
        try:
            if digest_of(pieces_of(opened.journal)) != head.digest:
                raise is_another(name, "the profile")
            if head.place == "archived" and not opened.archived:
                self._files.archive(opened)
        finally:
            self._files.settle(opened)
            opened.journal.close()
        if self._database.delete(head, unless_appended=True) is None:
            self._files.discard(name, None)
            raise was_changed(name)

    def _made(self, head: Head) -> OpenSession:
        """Return the open file of a session, which an earlier move may have made."""
        session_id = head.session_id
        if self._files.has(session_id):
            opened = self._files.open(session_id)
            if not self._is_left_over(opened, head):
                return opened
            opened.journal.close()
            self._files.discard(session_id, None)
        stored = self._sound(head)
        if head.place != "draft":
            return self._files.make(session_id, stored)
        path = self._files.profile.layout.pending_path(session_id)
        self._files.write_new(path, map(joined, stored))
        return self._files.open(session_id)

    def _is_left_over(self, opened: OpenSession, head: Head) -> bool:
        """Return whether another daemon went on with the session behind an earlier move to this file."""
        count, path = opened.journal.line_count, opened.path
        if path is None or path.parent not in self._files.profile.layout.folders:
            return False
        if not 0 < count <= head.seq or opened.journal.slack_bytes > 0:
            return False
        first = map(whole_lines, self._database.pieces(head.number, 0, count - 1))
        return digest_of(first) == digest_of(pieces_of(opened.journal))

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
