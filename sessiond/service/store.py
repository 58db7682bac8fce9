"""Sessions as files: create, find, open, list. Blocking, for worker threads.

The layout of a profile is the journal's, the meaning of lines the dialects',
the memory of what was seen the catalog's; here they are put together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from sessiond.catalog.catalog import Catalog, KnownSession
from sessiond.dialects.native import NATIVE
from sessiond.errors import SessiondError, SessionExists, StorageError
from sessiond.journal.files import Files
from sessiond.journal.journal import Journal, scan
from sessiond.journal.layout import Layout
from sessiond.journal.memory import MemoryJournal
from sessiond.limits import DRAFT_SECONDS
from sessiond.model.entries import Header
from sessiond.model.ids import derive_session_id, is_session_id
from sessiond.model.times import rfc3339
from sessiond.service.checks import Checks
from sessiond.service.indexer import Indexer
from sessiond.service.keeping import Keeping
from sessiond.service.mending import open_mended
from sessiond.service.opened import Opened, Persist, SessionInfo
from sessiond.service.ports import Environment
from sessiond.service.promotion import Promotion
from sessiond.service.register import Register
from sessiond.session.state import Session

__all__ = ["Listing", "Store", "Unreadable"]


class Unreadable(Struct, frozen=True):
    """A file that is in the sessions folder and is no session."""

    path: str
    reason: str


class Listing(Struct, frozen=True):
    """What the folders hold."""

    sessions: list[SessionInfo]
    unreadable: list[Unreadable]


class Store:
    """The session files of one profile."""

    def __init__(self, layout: Layout, files: Files, environment: Environment) -> None:
        self._layout = layout
        self._files = files
        self.environment = environment
        layout.make_folders(files)
        catalog = Catalog(layout.catalog)
        self._register = Register(catalog, files, environment.new_epoch)
        self.keeping = Keeping(layout, files, self._register, environment)
        self.checks = Checks(self.keeping, files)

    def promote(self, opened: Opened, wanted: Persist, lines: Sequence[bytes]) -> None:
        """Bring a session to this level, with more lines. Raises SessionExists, StorageError."""
        stamp = self.environment.file_stamp()
        Promotion(self._layout, self._files, self._register).promote(opened, wanted, lines, stamp)

    @property
    def data_folder(self) -> str:
        """The profile's folder."""
        return str(self._layout.root)

    def close(self) -> None:
        """Close the catalog."""
        self._register.close()

    # -- create ------------------------------------------------------------------

    def create(self, header: Header, persist: Persist) -> Opened:
        """A new native session. Raises SessionExists, StorageError."""
        session_id = header.id
        line = NATIVE.encode_header(header)
        if self.keeping.find(session_id) is not None:
            raise SessionExists("a session of this id exists", session_id=session_id)
        if persist == "never":
            return self._new(header, MemoryJournal(line), persist, None)
        place = self._layout.session_path(session_id, self.environment.file_stamp())
        pending = persist == "on_assistant"
        path = self._layout.pending_path(session_id) if pending else place
        journal = Journal.create(self._files, path, line, locks=self._layout.locks)
        opened = self._new(header, journal, persist, place if pending else None)
        self._register.note(opened)
        return opened

    def _new(
        self,
        header: Header,
        journal: Journal | MemoryJournal,
        persist: Persist,
        place: Path | None,
    ) -> Opened:
        created = str(header.timestamp)
        return Opened(
            header.id,
            Session(NATIVE.rules),
            journal,
            NATIVE,
            header,
            epoch=self.environment.new_epoch(),
            persist=persist,
            place=place,
            created_at=created,
            updated_at=created,
            created=True,
        )

    def adopt(self, session_id: str, lines: Sequence[bytes]) -> Path:
        """Put the lines of an import into the sessions folder as a whole. Raises StorageError."""
        path = self._layout.session_path(session_id, self.environment.file_stamp())
        Journal.create(self._files, path, b"\n".join(lines), locks=self._layout.locks).close()
        return path

    def settle_drafts(self) -> None:
        """What became of drafts, before anybody asks: conversations move in, the forgotten to the trash.

        A draft is forgotten when it has no assistant message and nobody touched it for
        DRAFT_SECONDS. One that cannot be read or moved stays where it is.
        """
        oldest = self._files.now() - DRAFT_SECONDS
        for path in self._layout.drafts(self._files):
            session_id = self._layout.id_of(path)
            if session_id is None:
                continue
            with suppress(SessiondError, OSError):
                touched = self._files.stat(path).st_mtime_ns / 1e9
                # Opening promotes a draft that has become a conversation.
                opened = self.open(session_id)
                try:
                    if opened.pending and touched < oldest:
                        self.keeping.discard_draft(opened)
                finally:
                    opened.journal.close()

    # -- open ----------------------------------------------------------------------

    def open(self, session_id: str) -> Opened:
        """Open a session by its id. Raises SessionNotFound, SessionCorrupt, SessionLocked."""
        return self._open(self.keeping.require(session_id), session_id)

    def identify(self, path: Path) -> str:
        """The session id of a file, which may lie anywhere. Raises SessionCorrupt, StorageError."""
        # Two spellings of one path are one session.
        path = path.resolve()
        own = self._layout.id_of(path)
        if own is not None:
            return own
        indexer = Indexer(path, in_place=True)
        scan(self._files, path, indexer.visit, lines_max=1)
        header_id = indexer.header.id
        taken = self.keeping.find(header_id) if is_session_id(header_id) else path
        usable = is_session_id(header_id) if taken is None or taken == path else False
        session_id = header_id if usable else derive_session_id(str(path))
        self._register.place(session_id, path)
        return session_id

    def _open(self, path: Path, session_id: str) -> Opened:
        self.keeping.settle_names(path)
        journal, indexer = open_mended(
            self._files, path, locks=self._layout.locks, stamp=self.environment.file_stamp
        )
        try:
            opened = self._opened(path, session_id, journal, indexer)
            if opened.pending and opened.session.has_assistant:
                opened.promote()
            self._register.note(opened)
        except BaseException:
            journal.close()
            raise
        return opened

    def _opened(self, path: Path, session_id: str, journal: Journal, indexer: Indexer) -> Opened:
        place = None
        if self._layout.is_pending(path):
            place = self._layout.session_path(session_id, self.environment.file_stamp())
        created_at, updated_at = _times(indexer, journal)
        return Opened(
            session_id,
            indexer.session,
            journal,
            indexer.dialect,
            indexer.header,
            epoch=self._register.epoch(session_id, journal),
            persist="immediate" if place is None else "on_assistant",
            place=place,
            created_at=created_at,
            updated_at=updated_at,
            archived=self._layout.is_archived(path),
        )

    def write_new(self, path: Path, text: bytes) -> None:
        """A new file of whole lines, private and durable. Raises StorageError (EEXIST)."""
        Journal.create(
            self._files, path, text.removesuffix(b"\n"), locks=self._layout.locks
        ).close()

    def find_entry(self, entry_id: str, besides: Collection[str]) -> str | None:
        """The first session file, latest begun first, that has the entry; `besides` are not read."""
        for path in sorted(self._layout.scan(self._files, drafts=True), reverse=True):
            session_id = self._layout.id_of(path)
            if session_id is None or session_id in besides:
                continue
            indexer = Indexer(path, in_place=True)
            try:
                Journal.read_only(self._files, path, indexer.visit).close()
                if entry_id in indexer.session.ids:
                    return session_id
            except SessiondError:
                # It is named when listed; here it only does not have the entry.
                continue
        return None

    def close_session(self, opened: Opened) -> None:
        """Make a session's last entries durable, note what it came to, let go of the file."""
        try:
            # Also brings a file that a failed append left damaged back to its last good byte.
            # Nobody is left to be told if that fails; whoever was promised anything has it.
            with suppress(StorageError):
                opened.journal.sync()
            self._register.note(opened)
        finally:
            opened.journal.close()

    # -- list ------------------------------------------------------------------------

    def list(self, live: Callable[[str], SessionInfo | None], *, drafts: bool) -> Listing:
        """Every session, in no order. `live` answers for the open ones."""
        listing = Listing([], [])
        known = self._register.by_path()
        for path in self._layout.scan(self._files, drafts=drafts):
            session_id = self._layout.id_of(path)
            info = live(session_id) if session_id else None
            row = known.pop(str(path), None)
            if info is None and session_id is not None:
                info = self._info(session_id, path, row, listing)
            if info is not None:
                listing.sessions.append(info)
        for row in known.values():
            path = Path(row.path)
            if self._layout.id_of(path) is None and self._files.exists(path):
                info = live(row.session_id) or self._info(row.session_id, path, row, listing)
                if info is not None:
                    listing.sessions.append(info)
        return listing

    def _info(
        self, session_id: str, path: Path, row: KnownSession | None, listing: Listing
    ) -> SessionInfo | None:
        """What the catalog knows of an unchanged file, else what the file says."""
        try:
            return self._register.unchanged(row, path) or self._index(session_id, path)
        except (SessiondError, OSError) as error:
            listing.unreadable.append(Unreadable(str(path), str(error)))
            return None

    def _index(self, session_id: str, path: Path) -> SessionInfo:
        """Read a file that changed since it was last seen, without opening it for writing."""
        indexer = Indexer(path, in_place=True)
        journal = Journal.read_only(self._files, path, indexer.visit)
        try:
            opened = self._opened(path, session_id, journal, indexer)
            self._register.note(opened)
            return opened.info()
        finally:
            journal.close()


def _times(indexer: Indexer, journal: Journal) -> tuple[str, str]:
    """When the session began and when its last entry was made."""
    session = indexer.session
    created = updated = rfc3339(indexer.header.timestamp)
    last = session.seq
    while last and not session.is_entry(last):
        last -= 1
    if last:
        (line,) = journal.read(last, last)
        updated = indexer.dialect.timestamp(line) or created
    return created, updated
