"""The way of a profile's sessions from files into a database, and back. Blocking.

Law: what is moved leaves its place only once the other place has all of it, durably, which is found by
reading it there. So a move that was interrupted is finished by the next one, and what is there already
with other content is never replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain
from typing import Final, Protocol

from sessiond.errors import SessionCorrupt, SessionExists, StorageError
from sessiond.journal.disk.failures import telling
from sessiond.journal.splitter import joined, whole_lines
from sessiond.journal.store import SessionLog
from sessiond.model.digests import sha256_hex
from sessiond.service.copying.source import portions
from sessiond.service.database.database import NO_LINES, Head, SessionDatabase, chained
from sessiond.service.files.store import FileStore
from sessiond.service.log.open_session import OpenSession

__all__ = ["SessionsIn", "SessionsOut", "Way", "was_changed"]

_EPOCH_DIGITS: Final = 16


class Way(Protocol):
    """A way on which things move, each by its name."""

    def names(self) -> list[str]:
        """Return the names of what is to be moved. Raises StorageError."""
        ...

    def move(self, name: str) -> None:
        """Move one. Raises SessiondError; then it is where it was."""
        ...


class SessionsIn:
    """Sessions from the profile's files into a database; the files go to the trash."""

    def __init__(self, database: SessionDatabase, files: FileStore) -> None:
        self._database = database
        self._files = files

    def names(self) -> list[str]:
        """Return the ids of the profile's sessions. A draft for a root stays a file."""
        files, layout = self._files.profile.files, self._files.profile.layout
        ids = dict.fromkeys(map(layout.id_of, layout.scan(files, drafts=True)))
        return [one for one in ids if one is not None and not files.exists(layout.note_path(one))]

    def move(self, name: str) -> None:
        """Move a session, under a new epoch: its file may come back and go on."""
        opened = self._files.open(name)
        with closing(opened.journal):
            self._copy(opened)
        self._files.discard(name, None)

    def _copy(self, opened: OpenSession) -> None:
        journal, session_id = opened.journal, opened.session_id
        if journal.slack_bytes > 0:
            text = f"{session_id}: half a line is at the end; see `sessiond repair {session_id}`"
            raise SessionCorrupt(
                text, path=str(opened.path), line=journal.line_count + 1, repairable=True
            )
        there = self._database.find(session_id)
        if there is None:
            epoch = self._epoch_of(opened)
            deleted = self._database.newest_trashed(session_id)
            if deleted is not None and deleted.epoch == epoch:
                # An earlier move was interrupted, and another daemon has deleted the session since.
                return
            there = self._database.create(
                session_id,
                epoch,
                _pieces(journal),
                "draft" if opened.pending else "archived" if opened.archived else "placed",
            )
            # The creation of an earlier move may have been under way.
            there = there or self._database.find(session_id)
        # Of a session that came before, other daemons may have gone on with it.
        last = journal.line_count - 1
        stored = (
            () if there is None else map(whole_lines, self._database.pieces(there.number, 0, last))
        )
        if _digest(stored) != _digest(_pieces(journal)):
            raise _is_another(session_id, "the database")

    def _epoch_of(self, opened: OpenSession) -> str:
        """Return the epoch of a row that is made of a file: no other file gives it, and no later state."""
        path = opened.path
        assert path is not None, "a session of the profile has a file"
        with telling("look at", path):
            stat = self._files.profile.files.stat(path)
        state = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
        return sha256_hex(f"{opened.session_id} {state}".encode())[:_EPOCH_DIGITS]


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
            if _digest(_pieces(opened.journal)) != head.digest:
                raise _is_another(name, "the profile")
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
        return _digest(first) == _digest(_pieces(opened.journal))

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


def _pieces(log: SessionLog) -> Iterator[list[bytes]]:
    """Yield all lines of a log, some at a time."""
    return map(log.read_many, portions(log, range(log.line_count)))


def _digest(pieces: Iterable[Sequence[bytes]]) -> bytes:
    return chained(NO_LINES, chain.from_iterable(pieces))


def _is_another(session_id: str, where: str) -> SessionExists:
    text = f"{where} has another session of this id, which stays as it is"
    return SessionExists(text, session_id=session_id)


def was_changed(name: str) -> StorageError:
    """Return the refusal to move what another daemon has changed during the move."""
    text = f"another daemon has changed {name} meanwhile: move again"
    return StorageError(text, errno="EBUSY", path=name, retryable=True)
