"""The store that keeps sessions in a database, together with the files of the daemon's machine.

New sessions go to the database. Files that the profile had before stay files and can still be used, as can
roots and files that clients open by their paths. Blocking, for worker threads.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path

import anyio
from anyio import to_thread

from sessiond.catalog.query import Query
from sessiond.errors import StorageError, as_outage
from sessiond.journal.kept_copies import KeptCopies
from sessiond.limits import (
    CLEAN_UP_SECONDS,
    DAEMON_SILENT_SECONDS,
    DATABASE_POLL_SECONDS,
    KEPT_COPIES_BYTES_MAX,
    LEASE_EPOCHS_RESERVED,
)
from sessiond.model.times import rfc3339, unix_ms
from sessiond.service.database.claims import DatabaseClaim, DatabaseClaims
from sessiond.service.database.company.companies import Companies, DatabaseCompany
from sessiond.service.database.database import SessionDatabase
from sessiond.service.database.documents import DocumentRows, SharedDocuments
from sessiond.service.database.doorbell import Doorbell
from sessiond.service.database.leases import DatabaseLeases, LeasedLog
from sessiond.service.database.log import DatabaseLog
from sessiond.service.database.opening import DatabaseOpener
from sessiond.service.database.parts.checks import StoreChecks
from sessiond.service.database.parts.listing import DatabaseLists
from sessiond.service.database.parts.making import DatabaseMaking
from sessiond.service.database.parts.trash import DatabaseTrash
from sessiond.service.database.refusals import naming_what_is_there
from sessiond.service.database.scanning.rows import IN_DATABASE
from sessiond.service.database.silence import Silence
from sessiond.service.database.watching import DatabaseWatches
from sessiond.service.external.watcher import Changed, Watch
from sessiond.service.files.kept_index import KeptIndexes
from sessiond.service.files.store import FileStore
from sessiond.service.log.open_session import OpenSession
from sessiond.service.ports import Progress
from sessiond.service.store.refusals import lies_inside
from sessiond.service.store.session_store import DatabaseStatus
from sessiond.state.codec import SECRETS, STATE, encode
from sessiond.state.document import Document
from sessiond.state.secret_store import SecretStore


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
        self._watches = DatabaseWatches(
            database, self._daemon, poll_seconds, self._silence, self._environment.report_trouble
        )
        self.data_folder = files.data_folder
        self.catalog, self.texts = files.catalog, files.texts
        self.documents = self._read_documents(STATE, encode)
        self.secrets = SecretStore(files.keys, partial(self._read_documents, SECRETS))
        self.require_there, self.with_activity = files.require_there, files.with_activity
        self.root_list, self.folder_of = files.root_list, files.folder_of
        self.root_of_copy = files.root_of_copy
        self.identify, self.write_new = files.identify, files.write_new
        self.spooled = files.spooled
        self._trash = trash = DatabaseTrash(database, files, copies, self._doorbell, self._daemon)
        self.discard, self.discard_unused = trash.discard, trash.discard_unused
        self.open_elsewhere = trash.open_elsewhere
        self.restore, self.trashed = trash.restore, trash.page
        self.purge, self.erase, self.purged = trash.purge, trash.erase, files.purged
        making = DatabaseMaking(database, files, self._opener, self._doorbell, self._daemon)
        self.create, self.make, self.promote = making.create, making.make, making.promote
        self.require_free = making.require_free
        checks = StoreChecks(database, files, self._doorbell)
        self.verify, self.plan_repair, self.repair = (
            checks.verify,
            checks.plan_repair,
            checks.repair,
        )
        lists = DatabaseLists(database, files, self._opener, self._watches, trash)
        self.scanner, self.row, self.note = lists.scanner, lists.row, lists.note
        self.whereabouts, self.texts_behind = lists.whereabouts, lists.texts_behind
        self.check_hits = lists.check_hits
        self.find_entry = lists.find_entry
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

    # -- opened ----------------------------------------------------------------------

    def open(self, session_id: str, progress: Progress | None = None) -> OpenSession:
        """Open a stored session. Raises SessionNotFound, SessionCorrupt, SessionLocked, StorageError."""
        head = self._watches.notes.find(session_id)
        with naming_what_is_there(self._database):
            if head is not None:
                return self._opener.opened(head)
            return self._files.open(session_id, progress)

    def place_of(self, opened: OpenSession) -> Path | None:
        """Return the path at which a scan has found an open session, if that is another path."""
        return self._files.place_of(opened)

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
            with suppress(StorageError), as_outage():
                await to_thread.run_sync(self._trash.settle_drafts, claim)
                await to_thread.run_sync(self._trash.forget_copies)
            await anyio.sleep(CLEAN_UP_SECONDS)

    # -- found -----------------------------------------------------------------------

    def has(self, session_id: str) -> bool:
        """Return whether a session of this id is stored, listed or not. Raises StorageError."""
        return self._database.find(session_id) is not None or self._files.has(session_id)

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
