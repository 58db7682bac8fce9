"""Opening of sessions that a database keeps. Blocking."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from sessiond.errors import SessiondError, SessionNotFound, StorageError
from sessiond.journal.disk.failures import telling
from sessiond.journal.disk.files import Files
from sessiond.journal.kept_copies import KeptCopies
from sessiond.journal.spool import Spool
from sessiond.limits import KEPT_COPY_LINES, KEPT_INDEX_ENTRIES
from sessiond.model.times import rfc3339
from sessiond.service.database.company.companies import Companies
from sessiond.service.database.database import NO_LINES, Head, Place, SessionDatabase
from sessiond.service.database.following.positions import Positions
from sessiond.service.database.leases import DatabaseLeases, LeasedLog
from sessiond.service.database.log import DatabaseLog
from sessiond.service.database.refusals import outpaced, refuse_missing_lines
from sessiond.service.files.kept_index import KeptIndexes
from sessiond.service.log.indexer import Indexer
from sessiond.service.log.open_session import OpenSession

_TRIES: Final = 100


class DatabaseOpener:
    """The opener of the sessions of one database."""

    def __init__(  # noqa: PLR0913 - a database, a folder, and what a session is opened with
        self,
        database: SessionDatabase,
        files: Files,
        folder: Path,
        copies: KeptCopies,
        indexes: KeptIndexes,
        new_epoch: Callable[[], str],
        leases: Callable[[LeasedLog], DatabaseLeases],
        companies: Companies,
        ring: Callable[[int], None],
    ) -> None:
        """Take the disk, the folder for copies of lines, and what stays of lines behind a close.

        `leases` makes the leases of a session; `ring` tells other daemons of a change.
        """
        self._companies = companies
        self._database = database
        self._positions = Positions(database)
        self._files = files
        self._folder = folder
        self._copies = copies
        self._indexes = indexes
        self._new_epoch = new_epoch
        self._new_leases = leases
        self._ring = ring

    def log_with(self, session_id: str, epoch: str, lines: Sequence[bytes]) -> DatabaseLog:
        """Return the log of a session that the database is to have, with its lines. Raises StorageError.

        `begin` must be called once the database has the session.
        """
        head = Head(
            number=0,
            session_id=session_id,
            epoch=epoch,
            seq=-1,
            digest=NO_LINES,
            size=0,
            place="draft",
            is_deleted=False,
            written_ns=0,
            version=0,
            leases=b"",
            now_ns=0,
        )
        log = self._log(head, self._folder)
        try:
            log.fill(lines)
        except BaseException:
            log.close()
            raise
        return log

    def new(self, log: DatabaseLog, lines: Sequence[bytes], place: Place) -> OpenSession:
        """Return the session of a log that `log_with` has made of these lines. Raises SessionCorrupt, StorageError.

        `begin` follows, or the log is closed.
        """
        session_id = log.head.session_id
        indexer = Indexer(Path(session_id), in_place=True, session_id=session_id)
        indexer.visit_lines(0, [*lines])
        return _session(log, indexer, place)

    def begin(self, opened: OpenSession, log: DatabaseLog, head: Head) -> None:
        """Serve a session by a log, with the row that the database has now for its lines."""
        log.begin(head)
        self._share(opened, log, head)

    def _share(self, opened: OpenSession, log: DatabaseLog, head: Head) -> None:
        """Let a session that is served see other daemons, and be seen by them."""
        log.leases = self._new_leases(log)
        log.company = self._companies.opened(head)
        log.on_place = partial(_take_place, opened)
        log.ring = self._ring

    def _log(self, head: Head, folder: Path | None) -> DatabaseLog:
        """Return the log of a row; without a folder the log has its lines in memory. Raises StorageError.

        Either log takes the lines of a kept copy, and only a log with a folder makes one.
        """
        name = Path(head.session_id)
        spool: Spool | None = None
        if head.seq >= KEPT_COPY_LINES:
            spool = self._copies.copy(str(head.number), name, makes=folder is not None)
        if spool is None:
            with telling("copy the lines of", name):
                spool = Spool.nameless(self._files, folder, name)
        return DatabaseLog(self._database, self._positions, head, spool, self._new_epoch)

    def opened(self, head: Head, *, is_read_once: bool = False) -> OpenSession:
        """Return the session of a row, as it is now if other daemons change the row.

        Raises SessionNotFound, SessionCorrupt, StorageError.
        """
        folder = None if is_read_once else self._folder
        for _ in range(_TRIES):
            opened = self._opened(head, folder)
            if opened is not None:
                return opened
            there = self._database.find(head.session_id)
            if there is None:
                raise SessionNotFound("no session of this id", session_id=head.session_id)
            head = there
        raise outpaced("open", Path(head.session_id))

    def _opened(self, head: Head, folder: Path | None) -> OpenSession | None:
        """Return the session of a row; None if its lines are not those of the row, which has changed."""
        log = self._log(head, folder)
        try:
            indexer = Indexer(Path(head.session_id), in_place=True, session_id=head.session_id)
            self._recall(log, indexer)
            if not self._is_indexed(log, indexer):
                log.doubt_copy()
                if log.has_kept_lines:
                    was_brought_back = log.goes_on_behind(head)
                    log.close()
                    if was_brought_back:
                        # Clients of this daemon have read what the copy has and the database lacks.
                        self._renew(head, head.digest)
                    return None
                found = self._as_found(head, log.head)
                if found is None:
                    log.close()
                    return None
                log.head = found
            opened = _session(log, indexer, head.place)
            if folder is not None:
                self._share(opened, log, head)
        except BaseException:
            log.close()
            raise
        return opened

    def _recall(self, log: DatabaseLog, indexer: Indexer) -> None:
        """Tell log and indexer the lines of a kept copy from the kept index."""
        if log.is_kept:
            believe = log.believe
            key = str(log.head.number)
            self._indexes.recall(key, indexer, log.reader, lambda digest, _: believe(digest))

    def keep(self, opened: OpenSession, log: DatabaseLog) -> None:
        """Keep the index of a long session that is about to be closed, beside the copy of its lines."""
        if log.is_kept and opened.session.seq >= KEPT_INDEX_ENTRIES:
            with suppress(OSError):
                log.settle_copy()
                self._indexes.keep(str(log.head.number), opened, log, log.head.digest)

    @staticmethod
    def _is_indexed(log: DatabaseLog, indexer: Indexer) -> bool:
        """Return whether the lines of the log are those of the row. Raises SessionCorrupt, StorageError."""
        try:
            return log.index(indexer.visit_lines)
        except SessiondError as error:
            if isinstance(error, StorageError) or not log.has_kept_lines:
                raise
            # The lines of the database may be no worse than the row says.
            return False

    def _as_found(self, counted: Head, found: Head) -> Head | None:
        """Give lines that were changed by hand a new epoch; return the row then.

        Returns None if another daemon has changed the row meanwhile, or if the row is gone. Raises
        SessionCorrupt if lines are missing.
        """
        if found.seq == counted.seq:
            return self._renew(counted, found.digest)
        refuse_missing_lines(self._database, counted, found.seq + 1)
        return None

    def _renew(self, head: Head, digest: bytes) -> Head | None:
        """Give a row a new epoch, and tell other daemons; return the row, None if the row has changed meanwhile."""
        renewed = self._database.renew(head, self._new_epoch(), digest)
        if renewed is not None:
            self._ring(renewed.number)
        return renewed


def _session(log: DatabaseLog, indexer: Indexer, place: Place) -> OpenSession:
    """Return the session of the lines that an indexer has visited. Raises StorageError."""
    session_id, log.position = log.head.session_id, log.head
    opened = OpenSession(
        session_id,
        indexer.session,
        log,
        indexer.dialect,
        indexer.header,
        indexer.intake,
        epoch=log.head.epoch,
        persist="on_assistant" if place == "draft" else "immediate",
        # A draft has a place to come to, and the database needs no path for that.
        place=Path(session_id) if place == "draft" else None,
        created_at=rfc3339(indexer.header.timestamp),
        archived=place == "archived",
    )
    opened.endings.read(opened.session, log, opened.dialect)
    return opened


def _take_place(opened: OpenSession, place: Place) -> None:
    """Note that another daemon has moved the session."""
    opened.archived = place == "archived"
    if place != "draft":
        opened.place, opened.persist = None, "immediate"
