"""The store that keeps sessions in a database, together with the files of the daemon's machine.

New sessions go to the database. Files that the profile had before stay files and can still be used, as can
roots and files that clients open by their paths. Blocking, for worker threads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Final

import anyio
from anyio import to_thread

from sessiond.catalog.fulltext import Indexed, Text
from sessiond.catalog.query import Query
from sessiond.catalog.rows import Known, ListedFile, Stored
from sessiond.dialects.native.dialect import NATIVE
from sessiond.errors import SessiondError, StorageError
from sessiond.journal.kept_copies import KeptCopies
from sessiond.journal.splitter import whole_lines
from sessiond.limits import (
    CLEAN_UP_SECONDS,
    DAEMON_SILENT_SECONDS,
    DATABASE_POLL_SECONDS,
    KEPT_COPIES_BYTES_MAX,
    LEASE_EPOCHS_RESERVED,
)
from sessiond.model.entries import Header
from sessiond.model.times import rfc3339, unix_ms
from sessiond.service.database.checking import DatabaseChecks
from sessiond.service.database.claims import DatabaseClaim, DatabaseClaims
from sessiond.service.database.company.companies import Companies, DatabaseCompany
from sessiond.service.database.database import Head, Place, SessionDatabase
from sessiond.service.database.documents import DocumentRows, SharedDocuments
from sessiond.service.database.doorbell import Doorbell
from sessiond.service.database.leases import DatabaseLeases, LeasedLog, leases_in
from sessiond.service.database.log import DatabaseLog
from sessiond.service.database.opening import DatabaseOpener
from sessiond.service.database.promotion import NewRow, Promotions, created, give_place
from sessiond.service.database.refusals import (
    asking_for_session_id,
    could_not,
    naming_what_is_there,
)
from sessiond.service.database.scanning.rows import IN_DATABASE, is_in_database, row_in_database
from sessiond.service.database.scanning.scanner import DatabaseScanner
from sessiond.service.database.silence import Silence
from sessiond.service.database.trash import DatabaseTrash
from sessiond.service.database.watching import DatabaseWatches
from sessiond.service.external.watcher import Changed, Watch
from sessiond.service.files.kept_index import KeptIndexes
from sessiond.service.files.line_texts import read_texts
from sessiond.service.files.store import FileStore
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.session_info import Persist
from sessiond.service.ports import Progress
from sessiond.service.store.checks import Repair, Verification
from sessiond.service.store.lease_table import LeaseChange
from sessiond.service.store.listed import Snapshot, TextsChanged, Whereabouts, snapshot
from sessiond.service.store.refusals import (
    id_is_taken,
    lies_inside,
    short_enough,
)
from sessiond.service.store.session_store import DatabaseStatus
from sessiond.state.codec import SECRETS, STATE, encode
from sessiond.state.document import Document
from sessiond.state.secret_store import SecretStore

__all__ = ["DatabaseStore"]

_TRIES: Final = 100


class DatabaseStore:
    """The sessions of a database and the files of a profile."""

    def __init__(
        self,
        database: SessionDatabase,
        files: FileStore,
        poll_seconds: float = DATABASE_POLL_SECONDS,
        silence: Silence | None = None,
    ) -> None:
        """Ask the database each `poll_seconds` what other daemons have changed.

        `silence` tells which daemons have ended, whose leases then end.
        """
        profile = files.profile
        self._database = database
        self._files = files
        self._environment = profile.environment
        folder = profile.layout.pending
        self._daemon = profile.files.random_digits()
        self._claims = DatabaseClaims(database)
        self._claim_numbers = count(1)
        self._silence = silence or Silence(DAEMON_SILENT_SECONDS)
        self._doorbell = Doorbell(database)
        self._companies = Companies(
            database,
            self._daemon,
            profile.files.random_digits,
            self._doorbell.ring,
            self._silence.ended.__contains__,
        )
        copies = KeptCopies(profile.files, profile.layout.copies, KEPT_COPIES_BYTES_MAX)
        self._opener = DatabaseOpener(
            database,
            profile.files,
            folder,
            copies,
            KeptIndexes(profile.files, profile.layout.copied_index_path),
            self._environment.new_epoch,
            self._new_leases,
            self._companies,
            self._doorbell.ring,
        )
        self._promotions = Promotions(database, self._opener)
        self._checks = DatabaseChecks(database, profile.files, folder)
        self._watches = DatabaseWatches(
            database, self._daemon, poll_seconds, self._silence, self._environment.report_trouble
        )
        self.data_folder = files.data_folder
        self.catalog, self.texts = files.catalog, files.texts
        self.documents = self._read_documents(STATE, encode)
        self.secrets = SecretStore(files.keys, partial(self._read_documents, SECRETS))
        self.require_there, self.with_activity = files.require_there, files.with_activity
        self.root_list, self.folder_of = files.root_list, files.folder_of
        self.identify, self.write_new = files.identify, files.write_new
        self._trash = trash = DatabaseTrash(database, files, copies, self._doorbell, self._daemon)
        self.discard, self.discard_unused = trash.discard, trash.discard_unused
        self.restore, self.trashed = trash.restore, trash.page
        self.purge, self.erase, self.purged = trash.purge, trash.erase, files.purged
        self.next_lease_epoch = count(self._lease_epochs(LEASE_EPOCHS_RESERVED)).__next__

    def _read_documents(self, kind: str, encode: Callable[[Document], bytes]) -> SharedDocuments:
        return SharedDocuments(
            DocumentRows(self._database, kind),
            self._watches,
            self._doorbell,
            self._environment,
            encode,
        )

    def _lease_epochs(self, count: int) -> int:
        now_us = (unix_ms(self._environment.now()) or 0) * 1000
        return self._database.reserve("lease_epoch", now_us, count)

    def _new_leases(self, log: LeasedLog) -> DatabaseLeases:
        # Each epoch is reserved when the lease is granted: those of two daemons have one order.
        return DatabaseLeases(
            log,
            self._daemon,
            partial(self._lease_epochs, 1),
            self._silence.ended.__contains__,
            self._environment.report_trouble,
        )

    @property
    def database(self) -> DatabaseStatus:
        """State of the database."""
        since = self._database.unreachable_since
        return DatabaseStatus(
            self._database.name,
            None if since is None else rfc3339(int(since * 1000)),
            self._database.notifications,
        )

    def lease_table(self, opened: OpenSession) -> DatabaseLeases | None:
        """Return the leases of a session; None for a session that is no session of the database."""
        log = opened.journal
        return log.leases if isinstance(log, DatabaseLog) else None

    def company(self, opened: OpenSession) -> DatabaseCompany | None:
        """Return the company of a session; None for a session that is no session of the database."""
        log = opened.journal
        return log.company if isinstance(log, DatabaseLog) else None

    def claim(self, opened: OpenSession, work: str) -> DatabaseClaim | None:
        """Return the claim on a piece of work on a session; None for no session of the database."""
        log = opened.journal
        if not isinstance(log, DatabaseLog):
            return None
        holder = f"{self._daemon} {next(self._claim_numbers)}"
        return DatabaseClaim(self._claims, f"{work} in {log.head.number}", holder)

    def routine(self, work: str, seconds: float) -> DatabaseClaim:
        """Return the claim on work that one daemon does for all, once in so many seconds."""
        return DatabaseClaim(self._claims, work, self._daemon, seconds)

    def close(self) -> None:
        """Close the database and the files."""
        self._companies.close()
        self._doorbell.close()
        with suppress(StorageError):
            self._database.company.end_of_daemons([self._daemon])
            self._database.forget_daemons([self._daemon])
        self._database.close()
        self._files.close()

    # -- made ------------------------------------------------------------------------

    def create(self, header: Header, persist: Persist, root: str | None) -> OpenSession:
        """Return a new session; one in a root is a file, and one of `never` is in memory."""
        self.require_free(header.id)
        if root is not None or persist == "never":
            return self._files.create(header, persist, root)
        is_draft = persist == "on_assistant"
        return self._create(header.id, [[NATIVE.encode_header(header)]], is_draft=is_draft)

    def make(self, session_id: str, chunks: Iterable[Sequence[bytes]]) -> OpenSession:
        """Store the lines of a copy as one session, all or none, and open the session."""
        self.require_free(session_id)
        return self._create(session_id, map(short_enough, chunks), is_draft=False)

    def _create(
        self, session_id: str, chunks: Iterable[Sequence[bytes]], *, is_draft: bool
    ) -> OpenSession:
        place: Place = "draft" if is_draft else "placed"
        epoch = self._environment.new_epoch()
        counts = list[int]()
        create = partial(self._database.create, session_id, epoch, _counted(chunks, counts), place)
        head = created(self._database, session_id, epoch, create)
        if head is None:
            raise id_is_taken(session_id)
        try:
            opened = self._opener.opened(head)
        except SessiondError:
            # A refused copy leaves nothing, so that a retry does not make a second one.
            # Another daemon may have gone on with the session, which stays then.
            if head.seq + 1 == sum(counts):
                with suppress(StorageError):
                    self._database.delete(head.number, head)
            raise
        opened.created = True
        if not is_draft:
            self._doorbell.ring(head.number)
        return opened

    def require_free(self, session_id: str) -> None:
        """Raise SessionExists for an id that a stored session has, StorageError."""
        if self._database.find(session_id) is not None:
            raise id_is_taken(session_id)
        self._files.require_free(session_id)

    # -- opened ----------------------------------------------------------------------

    def open(self, session_id: str, progress: Progress | None = None) -> OpenSession:
        """Open a stored session. Raises SessionNotFound, SessionCorrupt, SessionLocked, StorageError."""
        head = self._watches.notes.find(session_id)
        with naming_what_is_there(self._database):
            if head is not None:
                return self._opener.opened(head)
            return self._files.open(session_id, progress)

    def reopen(self, opened: OpenSession) -> OpenSession:
        """Open a session again whose log was replaced by another log, under a new epoch."""
        if not isinstance(opened.journal, DatabaseLog):
            return self._files.reopen(opened)
        before = self._end(opened.journal)
        opened.journal.close()
        again = self.open(opened.session_id)
        company = self.company(again)
        if company is not None and before is not None:
            try:
                company.follow(before)
            except BaseException:
                again.journal.close()
                raise
        return again

    def _end(self, log: DatabaseLog) -> DatabaseCompany | None:
        """End what connections of this daemon have in a session; return the session's company."""
        if log.leases is not None:
            log.leases.end_own()
        if log.company is not None:
            log.company.end()
        return log.company

    def settle(self, opened: OpenSession) -> None:
        """Make the last entries durable before the log is closed; a failure is not told."""
        if not isinstance(opened.journal, DatabaseLog):
            self._files.settle(opened)
            return
        self._end(opened.journal)
        if opened.dirty:
            with suppress(StorageError):
                opened.journal.sync()
        self._opener.keep(opened, opened.journal)

    def watch(self, opened: OpenSession, changed: Changed) -> Watch:
        """Call `changed` for each change of an open session by another writer."""
        log = opened.journal
        if isinstance(log, DatabaseLog):
            assert log.leases is not None, "a session that is watched is served"
            return self._watches.watch(log, log.leases, changed)
        return self._files.watch(opened, changed)

    async def run(self, wake: Callable[[], None], is_watched: Callable[[], bool]) -> None:
        """Deliver notices until cancelled."""
        self._watches.watch_lists(is_watched, wake)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._files.run, wake, is_watched)
            tasks.start_soon(self._watches.run)
            tasks.start_soon(self._keep_clean)

    async def _keep_clean(self) -> None:
        """Move abandoned drafts to the trash now and then, and remove copies of deleted sessions.

        The drafts are those of all daemons, which do this work in turns.
        """
        while True:
            claim = self.routine("drafts", CLEAN_UP_SECONDS)
            await to_thread.run_sync(self._trash.settle_drafts, claim)
            with suppress(StorageError):
                await to_thread.run_sync(self._trash.forget_copies)
            await anyio.sleep(CLEAN_UP_SECONDS)

    def promote(
        self,
        opened: OpenSession,
        wanted: Persist,
        lines: Sequence[bytes],
        *,
        late: bool,
        leases: Sequence[LeaseChange] = (),
    ) -> None:
        """Bring a session to this level, with more lines; `late` as in `SessionLog.append`."""
        log = opened.journal
        if isinstance(log, DatabaseLog):
            give_place(opened, log, wanted, lines, late=late)
        elif log.blocking or wanted == "never":
            self._files.promote(opened, wanted, lines, late=late)
            return
        else:
            self._files.require_free(opened.session_id)
            is_draft = wanted == "on_assistant" and not opened.is_lasting
            row = NewRow(
                opened.session_id,
                opened.epoch,
                "draft" if is_draft else "placed",
                leases_in(leases, self._database.now_ns(), self._daemon) if leases else b"",
                [*opened.journal.read(0, opened.session.seq), *lines],
            )
            self._promotions.write_out(opened, row)
        opened.persist = wanted

    # -- found -----------------------------------------------------------------------

    def has(self, session_id: str) -> bool:
        """Return whether a session of this id is stored, listed or not. Raises StorageError."""
        return self._database.find(session_id) is not None or self._files.has(session_id)

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

    # -- the archive, and age ----------------------------------------------------------

    def archive(self, opened: OpenSession) -> None:
        """Bring an open session into the archive. Safe to repeat. Raises StorageError, Replaced."""
        if not isinstance(opened.journal, DatabaseLog):
            self._files.archive(opened)
            return
        opened.journal.bring("archived")
        opened.archived, opened.place = True, None

    def unarchive(self, opened: OpenSession) -> None:
        """Bring an open session back among the sessions. Safe to repeat. Raises StorageError, Replaced."""
        if not isinstance(opened.journal, DatabaseLog):
            self._files.unarchive(opened)
        # Another daemon may have archived the session since the last look.
        elif opened.archived or opened.journal.there().place == "archived":
            opened.journal.bring("placed")
            opened.archived = False

    def now(self) -> float:
        """Return the seconds since 1970 by the database's clock."""
        return self._database.now_ns() / 1e9

    def written_at(self, session_id: str) -> int:
        """Return when a session was written last, in nanoseconds since 1970."""
        head = self._database.find(session_id)
        return self._files.written_at(session_id) if head is None else head.written_ns

    def older(self, before_ns: int) -> Query:
        """Return the query of the database's sessions in their places, written before a time."""
        return Query(
            written_before_ns=before_ns, root=IN_DATABASE, sort="written", descending=False
        )

    # -- outside the database ----------------------------------------------------------

    def forget(self, session_id: str) -> None:
        """Remove what is kept of a session outside the profile, but for its row in lists."""
        if self._database.find(session_id) is not None:
            raise lies_inside()
        self._files.forget(session_id)

    # -- checks ----------------------------------------------------------------------

    def verify(
        self, session_id: str, opened: OpenSession | None, progress: Progress
    ) -> Verification:
        """Return the problems of a session's lines. Raises SessionNotFound, StorageError."""
        head = self._head(session_id, opened)
        if head is not None:
            return self._checks.verify(head, progress)
        with naming_what_is_there(self._database):
            return self._files.verify(session_id, _of_files(opened), progress)

    def plan_repair(
        self, session_id: str, opened: OpenSession | None, *, dry_run: bool, progress: Progress
    ) -> Repair:
        """Return what a repair would do."""
        head = self._head(session_id, opened)
        if head is not None:
            return self._checks.plan(head, dry_run=dry_run, progress=progress)
        with naming_what_is_there(self._database):
            return self._files.plan_repair(
                session_id, _of_files(opened), dry_run=dry_run, progress=progress
            )

    def _head(self, session_id: str, opened: OpenSession | None) -> Head | None:
        """Return the row of a session as it is stored; None for no session of the database."""
        is_elsewhere = opened is not None and not isinstance(opened.journal, DatabaseLog)
        return None if is_elsewhere else self._database.find(session_id)

    def repair(self, session_id: str) -> Repair:
        """Store a session anew without its bad lines, under a new epoch."""
        for _ in range(_TRIES):
            head = self._database.find(session_id)
            if head is None:
                with naming_what_is_there(self._database):
                    return self._files.repair(session_id)
            done = self._checks.repair(head, self._environment.new_epoch())
            if done is not None:
                self._doorbell.ring(head.number)
                return done
        raise could_not("repair", Path(session_id), "other daemons were faster each time", "EBUSY")

    # -- lists -----------------------------------------------------------------------

    def scanner(self, has_open: Callable[[str], bool]) -> DatabaseScanner:
        """Return the scanner of the database's rows and of the profile's folders."""
        folders = self._files.scanner(has_open)
        return DatabaseScanner(
            self._database,
            self.catalog,
            self._read_row,
            has_open,
            folders,
            self._environment.now,
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
        """Return the row of an open session; None if its log was closed meanwhile."""
        log = seen.opened.journal
        if not isinstance(log, DatabaseLog):
            return self._files.row(seen)
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


def _counted(chunks: Iterable[Sequence[bytes]], counts: list[int]) -> Iterator[Sequence[bytes]]:
    """Yield the chunks, and note how many lines each of them has."""
    for lines in chunks:
        counts.append(len(lines))
        yield lines


def _of_files(opened: OpenSession | None) -> OpenSession | None:
    """Return an open session unless the database has, or had, the session."""
    return None if opened is None or isinstance(opened.journal, DatabaseLog) else opened
