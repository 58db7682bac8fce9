"""New sessions of a database, and the way of a session to its place in the database. Blocking."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial

from sessiond.dialects.native.dialect import NATIVE
from sessiond.errors import SessiondError, StorageError
from sessiond.model.entries import Header
from sessiond.service.database.database import NO_LINES, Place, SessionDatabase, chained
from sessiond.service.database.doorbell import Doorbell
from sessiond.service.database.leases import leases_in
from sessiond.service.database.log import DatabaseLog
from sessiond.service.database.opening import DatabaseOpener
from sessiond.service.database.promotion import NewRow, Promotions, created, give_place
from sessiond.service.files.store import FileStore
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.session_info import Persist
from sessiond.service.store.lease_table import LeaseChange
from sessiond.service.store.refusals import id_is_taken, short_enough
from sessiond.service.store.roots import RootOfCopy


class DatabaseMaking:
    """The making of sessions in one database, and of those that are files or in memory."""

    def __init__(
        self,
        database: SessionDatabase,
        files: FileStore,
        opener: DatabaseOpener,
        doorbell: Doorbell,
        daemon: str,
    ) -> None:
        """Take the name of this daemon, under which leases come with a session."""
        self._database = database
        self._files = files
        self._opener = opener
        self._doorbell = doorbell
        self._daemon = daemon
        self._new_epoch = files.profile.environment.new_epoch
        self._promotions = Promotions(database, opener)

    def create(self, header: Header, persist: Persist, root: str | None) -> OpenSession:
        """Return a new session; one in a root is a file, and one of `never` is in memory."""
        self.require_free(header.id)
        if root is not None or persist == "never":
            return self._files.create(header, persist, root)
        place: Place = "draft" if persist == "on_assistant" else "placed"
        opened = self._new(header.id, [NATIVE.encode_header(header)], place)
        opened.created = True
        return opened

    def _new(self, session_id: str, lines: Sequence[bytes], place: Place) -> OpenSession:
        """Store a new session, and open the session by the lines that were stored."""
        epoch = self._new_epoch()
        # First the copy: once the database has the session, another daemon may answer with the session.
        log = self._opener.log_with(session_id, epoch, lines)
        is_begun = False
        try:
            opened = self._opener.new(log, lines, place)
            create = partial(self._database.create, session_id, epoch, [lines], place)
            head = created(self._database, session_id, epoch, create)
            if head is None:
                raise id_is_taken(session_id)
            if head.digest == chained(NO_LINES, lines) and head.place == place:
                self._opener.begin(opened, log, head)
                is_begun = True
        finally:
            if not is_begun:
                log.close()
        if place != "draft":
            self._doorbell.ring(head.number)
        # Another daemon may have gone on with a session whose creation lost its answer.
        return opened if is_begun else self._opener.opened(head)

    def make(
        self,
        session_id: str,
        chunks: Iterable[Sequence[bytes]],
        root: RootOfCopy | None = None,
    ) -> OpenSession:
        """Store the lines of a copy as one session, all or none, and open the session."""
        self.require_free(session_id)
        if root is not None:
            return self._files.make(session_id, chunks, root)
        epoch, counts = self._new_epoch(), list[int]()
        stored = _counted(map(short_enough, chunks), counts)
        create = partial(self._database.create, session_id, epoch, stored, "placed")
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
                    self._database.delete(head, unless_appended=True)
            raise
        opened.created = True
        self._doorbell.ring(head.number)
        return opened

    def require_free(self, session_id: str) -> None:
        """Raise SessionExists for an id that a stored session has, StorageError."""
        if self._database.find(session_id) is not None:
            raise id_is_taken(session_id)
        self._files.require_free(session_id)

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


def _counted(chunks: Iterable[Sequence[bytes]], counts: list[int]) -> Iterator[Sequence[bytes]]:
    """Yield the chunks, and note how many lines each of them has."""
    for lines in chunks:
        counts.append(len(lines))
        yield lines
