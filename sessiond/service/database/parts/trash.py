"""Deleted sessions of a database, and the trash of the files that the store goes together with. Blocking."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

from sessiond.catalog.rows import Known
from sessiond.dialects import recognise
from sessiond.dialects.base import BadHeader
from sessiond.errors import InvalidParams, SessionNotFound, StorageError
from sessiond.journal.kept_copies import KeptCopies
from sessiond.limits import DRAFT_SECONDS
from sessiond.model.entries import Header
from sessiond.service.database.database import Head, SessionDatabase
from sessiond.service.database.doorbell import Doorbell
from sessiond.service.database.refusals import naming_what_is_there, outpaced
from sessiond.service.database.scanning.rows import is_in_database
from sessiond.service.files.store import FileStore
from sessiond.service.log.open_session import OpenSession
from sessiond.service.store.claims import Claim
from sessiond.service.store.refusals import exists_again, still_there
from sessiond.service.store.trash import TrashedSession, TrashResult

# Cursors of the trash: the database comes first, then the files.
_OF_FILES: Final = "files:"
_CURSOR_DIGITS_MAX: Final = 18
"""Digits of a number that a database surely takes."""
_SECOND_NS: Final = 1_000_000_000
_TRIES: Final = 100
_NO_DAEMON: Final = ""
"""Name that no daemon has."""


class DatabaseTrash:
    """The trash of one database, and that of a profile's files."""

    def __init__(
        self,
        database: SessionDatabase,
        files: FileStore,
        copies: KeptCopies,
        doorbell: Doorbell,
        daemon: str,
    ) -> None:
        """Take the name of this daemon, whose own notes of open sessions spare nothing."""
        self._copies = copies
        self._database = database
        self._files = files
        self._doorbell = doorbell
        self._daemon = daemon
        self._catalog, self._texts = files.catalog, files.texts

    def _has(self, session_id: str) -> bool:
        return self._database.find(session_id) is not None or self._files.has(session_id)

    def discard(self, session_id: str, opened: OpenSession | None) -> None:
        """Delete a session, which stays in the trash, with every file of its id. Safe to repeat."""
        for _ in range(_TRIES):
            head = self._database.find(session_id)
            if head is None:
                self._discard_file(session_id, opened)
                return
            # The row is the session, and goes last.
            self._discard_left_over(session_id)
            # Another daemon may delete the session meanwhile, or repair it, which gives it another number.
            if self._database.delete(head) is not None:
                self._copies.forget(str(head.number))
                self._doorbell.ring(head.number)
                return
        raise outpaced("delete", Path(session_id))

    def _discard_left_over(self, session_id: str) -> None:
        """Move the file to the trash that an interrupted move of the profile has left beside a row."""
        if self._files.has(session_id):
            self._files.discard(session_id, None)

    def _discard_file(self, session_id: str, opened: OpenSession | None) -> None:
        """Move a file to the trash, unless the session is in the trash of the database."""
        if self._files.has(session_id) or self._database.newest_trashed(session_id) is None:
            with naming_what_is_there(self._database):
                self._files.discard(session_id, opened)

    def discard_unused(self, session_id: str, opened: OpenSession | None, before_ns: int) -> bool:
        """Move a session to the trash, unless it was written to, or is open at another daemon."""
        head = self._database.find(session_id)
        if head is None:
            return self._files.discard_unused(session_id, opened, before_ns)
        is_discarded = self._discarded(head.number, before_ns, self._daemon)
        if is_discarded:
            self._discard_left_over(session_id)
        return is_discarded

    def open_elsewhere(self) -> Collection[str]:
        """Return the ids of the sessions that other daemons have open. Raises StorageError."""
        return self._database.open_elsewhere(self._daemon)

    def settle_drafts(self, claim: Claim) -> None:
        """Move drafts to the trash that were abandoned at any daemon, if it is this daemon's turn."""
        with suppress(StorageError):
            if not claim.take():
                return
            try:
                before_ns = self._database.now_ns() - int(DRAFT_SECONDS * _SECOND_NS)
                # Those that this daemon has open stay, too.
                self._discarded(None, before_ns, _NO_DAEMON)
            except StorageError:
                claim.end()

    def _discarded(self, number: int | None, before_ns: int, daemon: str) -> bool:
        """Delete what is unused, also if `daemon` has it open; return whether there was anything."""
        numbers = self._database.delete_unused(number, before_ns, daemon)
        for one in numbers:
            self._doorbell.ring(one)
        return bool(numbers)

    def forget_copies(self) -> None:
        """Remove this daemon's copies of sessions that any daemon has deleted. Raises StorageError."""
        numbers = [int(name) for name in self._copies.names() if name.isdecimal()]
        rows = self._database.heads(numbers) if numbers else []
        there = {head.number for head in rows if not head.is_deleted}
        for number in numbers:
            if number not in there:
                self._copies.forget(str(number))

    def restore(self, session_id: str) -> None:
        """Bring a deleted session back. Raises SessionExists, SessionNotFound, StorageError."""
        for _ in range(_TRIES):
            if self._has(session_id):
                raise exists_again(session_id)
            head = self._database.newest_trashed(session_id)
            if head is None:
                with naming_what_is_there(self._database):
                    self._files.restore(session_id)
                return
            # Another daemon may restore or purge the session meanwhile.
            if self._database.restore(head) is not None:
                self._doorbell.ring(head.number)
                return
        raise outpaced("restore", Path(session_id))

    def page(self, limit: int, cursor: str | None) -> TrashResult:
        """Return a page of the trash: what the database has, then files. Raises InvalidParams."""
        shown: list[TrashedSession] = []
        if cursor is None or not cursor.startswith(_OF_FILES):
            before = None if cursor is None else _number_in(cursor)
            found = self._database.trashed(limit + 1, before)
            shown = [self._shown(one.head, one.header) for one in found[:limit]]
            if len(found) > limit:
                return TrashResult(shown, str(found[limit - 1].head.number))
            if len(shown) == limit:
                has_files = bool(self._files.trashed(1, None).sessions)
                return TrashResult(shown, _OF_FILES if has_files else None)
            cursor = None
        inner = cursor.removeprefix(_OF_FILES) if cursor else None
        page = self._files.trashed(limit - len(shown), inner or None)
        more = None if page.next_cursor is None else f"{_OF_FILES}{page.next_cursor}"
        return TrashResult([*shown, *page.sessions], more)

    def _shown(self, head: Head, line: bytes) -> TrashedSession:
        try:
            _, header = recognise(line)
        except BadHeader:
            header = Header()
        return TrashedSession(
            head.session_id,
            title=header.title,
            cwd=header.cwd or None,
            path=self._database.name,
            origin=None,
            bytes=head.size,
        )

    def purge(self, session_id: str) -> Known | None:
        """Remove a deleted session and its words for good; return its record for `erase`."""
        for _ in range(_TRIES):
            if self._has(session_id):
                raise still_there(session_id)
            head = self._database.newest_trashed(session_id)
            if head is None:
                with naming_what_is_there(self._database):
                    return self._files.purge(session_id)
            # The words go first: until the lines are gone a failed purge can be repeated.
            self._texts.purge(session_id)
            self._catalog.erase(session_id)
            # Another daemon may purge or restore the session meanwhile.
            if self._database.purge(session_id):
                self._doorbell.ring(head.number)
                with suppress(StorageError):
                    self.forget_copies()
                with suppress(SessionNotFound):
                    return self._files.purge(session_id)
                return self._catalog.known(session_id)
        raise outpaced("purge", Path(session_id))

    def erase_words(self, session_id: str) -> None:
        """Erase what this daemon's files have of a session that another daemon purged.

        Raises StorageError.
        """
        known = self._catalog.known(session_id)
        if known is not None and is_in_database(known.path):
            self._texts.purge(session_id)
            self.forget_copies()
            self.erase(session_id, known)

    def erase(self, session_id: str, purged: Known | None) -> None:
        """Erase what lists know of a purged session. Raises StorageError."""
        if purged is None or not is_in_database(purged.path):
            self._files.erase(session_id, purged)
            return
        self._catalog.erase(session_id)
        self._catalog.forget_unlisted(purged)


def _number_in(cursor: str) -> int:
    """Return the number of the last session of a page. Raises InvalidParams for text that is no cursor."""
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) <= _CURSOR_DIGITS_MAX):
        raise InvalidParams("not a cursor that session/trash returned", path="cursor")
    return int(cursor)
