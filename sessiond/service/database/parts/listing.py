"""Lists and searches of the sessions of a store: those of the database, and those of files. Blocking."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain
from zlib import crc32

from sessiond.catalog.fulltext import Found, Hit, Indexed, LinePlace, Text
from sessiond.catalog.rows import Known, ListedFile, Stored
from sessiond.errors import SessiondError, StorageError
from sessiond.journal.splitter import whole_lines
from sessiond.service.database.database import Head, SessionDatabase
from sessiond.service.database.log import DatabaseLog
from sessiond.service.database.opening import DatabaseOpener
from sessiond.service.database.parts.trash import DatabaseTrash
from sessiond.service.database.refusals import asking_for_session_id
from sessiond.service.database.scanning.rows import is_in_database, row_in_database
from sessiond.service.database.scanning.scanner import DatabaseScanner
from sessiond.service.database.watching import DatabaseWatches
from sessiond.service.files.line_texts import read_texts
from sessiond.service.files.store import FileStore
from sessiond.service.log.open_session import OpenSession
from sessiond.service.store.listed import Snapshot, TextsChanged, Whereabouts, snapshot


class DatabaseLists:
    """Lists of the sessions of one database, and of a profile's files: the port `Listed`."""

    def __init__(
        self,
        database: SessionDatabase,
        files: FileStore,
        opener: DatabaseOpener,
        watches: DatabaseWatches,
        trash: DatabaseTrash,
    ) -> None:
        self._database = database
        self._files = files
        self._opener = opener
        self._watches = watches
        self._trash = trash

    def find_entry(
        self, entry_id: str, listed: Iterable[ListedFile], besides: Collection[str]
    ) -> str | None:
        """Return the session that has the entry; sessions of the database come first."""
        with asking_for_session_id():
            holding = [*self._database.holding(entry_id.encode())]
        for session_id in holding:
            if session_id not in besides and self._has_entry(session_id, entry_id):
                return session_id
        files = (one for one in listed if not is_in_database(one.path))
        return self._files.find_entry(entry_id, files, besides)

    def _has_entry(self, session_id: str, entry_id: str) -> bool:
        head = self._database.find(session_id)
        if head is None:
            return False
        try:
            opened = self._opener.opened(head, is_read_once=True)
        except SessiondError:
            return False
        opened.journal.close()
        return entry_id in opened.session.ids

    def scanner(self, has_open: Callable[[str], bool]) -> DatabaseScanner:
        """Return the scanner of the database's rows and of the profile's folders."""
        folders = self._files.scanner(has_open)
        return DatabaseScanner(
            self._database,
            self._files.catalog,
            self._read_row,
            has_open,
            folders,
            self._files.profile.environment.now,
            watches=self._watches,
            purged=self._trash.erase_words,
        )

    def _read_row(self, head: Head) -> Stored:
        opened = self._opener.opened(head, is_read_once=True)
        log = opened.journal
        assert isinstance(log, DatabaseLog), "the session is in the database"
        try:
            return row_in_database(snapshot(opened), log)
        finally:
            log.close()

    def row(self, seen: Snapshot) -> Stored | None:
        """Return the row of an open session; None if its log was closed meanwhile, or has come meanwhile."""
        log, position = seen.opened.journal, seen.position
        if not isinstance(log, DatabaseLog):
            return self._files.row(seen)
        if not isinstance(position, Head) or position.seq != seen.info.seq:
            # The session came out of memory during the snapshot or behind it, and its actor has the next row.
            return None
        try:
            return row_in_database(seen, log)
        except StorageError:
            if log.reader.is_closed:
                return None
            raise

    def note(self, opened: OpenSession) -> None:
        """Record under which epoch an open session is served, unless the database knows the epoch."""
        if not isinstance(opened.journal, DatabaseLog):
            self._files.note(opened)

    def whereabouts(self, known: Known) -> Whereabouts:
        """Return the place of a stored session."""
        if is_in_database(known.path):
            return Whereabouts(is_agents=False, root=None)
        return self._files.whereabouts(known)

    def texts_behind(
        self, known: Known, indexed: Indexed | None
    ) -> Iterator[tuple[Indexed, list[Text]]]:
        """Yield the texts of a session's lines behind `indexed`. Raises TextsChanged, StorageError."""
        if not is_in_database(known.path):
            return self._files.texts_behind(known, indexed)
        head = self._database.find(known.session_id)
        if head is None or head.epoch != known.mark.epoch:
            raise TextsChanged
        number = head.number

        def lines_from(seq: int, end: int) -> Iterator[tuple[bytes, int]]:
            pieces = self._database.pieces(number, seq, known.mark.seen_seq)
            for line in chain.from_iterable(map(whole_lines, pieces)):
                end += len(line) + 1
                yield line, end

        return read_texts(lines_from, known.mark, indexed)

    def check_hits(self, known: Known, hits: Sequence[Hit]) -> list[bool | None]:
        """Return whether the words of each hit are still in the session; None if that cannot be seen now.

        Raises StorageError, SessionCorrupt.
        """
        if not is_in_database(known.path):
            return self._files.check_hits(known, hits)
        head = self._database.find(known.session_id)
        if head is None or head.epoch != known.mark.epoch:
            return [False] * len(hits)
        return [self._has(head.number, *hit) for hit in hits]

    def _has(self, number: int, found: Found, place: LinePlace | None) -> bool:
        data = b"".join(self._database.pieces(number, found.seq, found.seq))
        return [*map(crc32, whole_lines(data))] == [place and place.mark]
