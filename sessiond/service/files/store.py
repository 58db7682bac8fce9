"""Store: sessions as files, to create, find and open. Blocking, for worker threads.

The journal knows the layout of a profile, the dialects know the meaning of lines, and the catalog
remembers what was seen; the store puts these together.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path

from sessiond.catalog.catalog import Catalog
from sessiond.catalog.fulltext import TextIndex
from sessiond.catalog.rows import ListedFile
from sessiond.dialects.native.dialect import NATIVE
from sessiond.errors import InvalidParams, SessiondError, SessionExists, StorageError, TooLarge
from sessiond.journal.disk.failures import printable, telling
from sessiond.journal.disk.files import Files
from sessiond.journal.journal import Journal
from sessiond.journal.memory import MemoryBudget, MemoryJournal
from sessiond.journal.profile.layout import Layout
from sessiond.journal.profile.making import make_file
from sessiond.limits import LEASE_EPOCHS_RESERVED, LINE_BYTES_MAX
from sessiond.model.entries import Header
from sessiond.model.ids import is_session_id
from sessiond.model.times import unix_ms
from sessiond.service.environment import Environment
from sessiond.service.files.agents.in_place import AgentFile, AgentFiles
from sessiond.service.files.agents.opencode.paths import Paths
from sessiond.service.files.assembly import Assembly
from sessiond.service.files.catalog_records import CatalogRecords
from sessiond.service.files.checks import Checks
from sessiond.service.files.crash_recovery import judge_tail, open_unchanged
from sessiond.service.files.indexer import Indexer
from sessiond.service.files.kept_index import KeptIndexes
from sessiond.service.files.locations import SessionFiles
from sessiond.service.files.promotion import Promotion
from sessiond.service.files.root_places import header_line, note_of, place_in_root
from sessiond.service.files.roots import Roots
from sessiond.service.files.rows import Rows
from sessiond.service.log.line_indexer import LineIndexer
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.session_info import Persist
from sessiond.service.ports import Progress
from sessiond.session.index import Session
from sessiond.state import codec
from sessiond.state.document import Document
from sessiond.state.documents import Documents
from sessiond.state.folder import DocumentFolder
from sessiond.state.key_file import KeySource
from sessiond.state.secret_store import SecretStore

__all__ = ["Store"]


class Store:
    """The session files of one profile, whose folders exist (`Layout.make_folders`)."""

    def __init__(self, layout: Layout, files: Files, environment: Environment) -> None:
        self.layout = layout
        self.files = files
        self.environment = environment
        self.memory = MemoryBudget()
        self.catalog = Catalog(layout.catalog, environment.report_trouble)
        self.texts = TextIndex(layout.search, environment.report_trouble)
        self.paths = Paths(files)
        self.records = CatalogRecords(self.catalog, self.paths, environment.new_epoch)
        self.indexes = KeptIndexes(layout, files)
        self.roots = Roots(layout, files, environment.report_trouble)
        self.agents = AgentFiles(files, layout.pending)
        self.session_files = SessionFiles(
            layout,
            files,
            self.records,
            self.indexes,
            environment,
            roots=self.roots,
            agents=self.agents,
            paths=self.paths,
        )
        self._assembly = Assembly(layout, files, self.records, environment, roots=self.roots)
        self.rows = Rows(
            layout, files, self.records, self._assembly, agents=self.agents, roots=self.roots
        )
        self.checks = Checks(self.session_files, layout, files, self.agents)
        # The clock or the catalog may be lost; the other one still exceeds all earlier epochs.
        now_ms = unix_ms(environment.now()) or 0
        now_us = now_ms * 1000
        first = self.catalog.reserve("lease_epoch", now_us, LEASE_EPOCHS_RESERVED)
        self.next_lease_epoch = count(first).__next__
        report = environment.report_trouble
        values = self._folder(layout.state, codec.STATE)
        self.documents = Documents(values, now_ms, report)
        encrypted = self._folder(layout.secrets, codec.SECRETS)
        keys = KeySource(files, layout.home, environment.key_settings)
        self.secrets = SecretStore(encrypted, keys, first_revision=now_ms, report=report)

    def _folder(self, folder: Path, kind: str) -> DocumentFolder[Document]:
        return DocumentFolder(
            self.files,
            folder,
            partial(codec.decode_as, kind),
            stamp=self.environment.file_stamp,
            report=self.environment.report_trouble,
        )

    def promote(
        self, opened: OpenSession, wanted: Persist, lines: Sequence[bytes], *, late: bool
    ) -> None:
        """Bring a session to this level, with more lines; `late` as in `SessionLog.append`.

        Raises SessionExists, StorageError, Overtaken, Replaced; nothing has changed then.
        """
        stamp = self.environment.file_stamp()
        promotion = Promotion(self.layout, self.files, self.records, stamp, late)
        promotion.promote(opened, wanted, lines)

    @property
    def data_folder(self) -> str:
        """Folder of the profile."""
        return str(self.layout.root)

    def close(self) -> None:
        """Close the catalog and the search index."""
        self.catalog.close()
        self.texts.close()

    # -- create ------------------------------------------------------------------

    def create(self, header: Header, persist: Persist) -> OpenSession:
        """Return a new native session. Raises SessionExists, StorageError."""
        session_id = header.id
        line = NATIVE.encode_header(header)
        self.require_free(session_id)
        if persist == "never":
            return self._new(header, MemoryJournal(line, self.memory), persist, None)
        place = self.layout.session_path(session_id, self.environment.file_stamp())
        pending = persist == "on_assistant"
        path = self.layout.pending_path(session_id) if pending else place
        journal = Journal.create(self.files, path, line, locks=self.layout.locks)
        opened = self._new(header, journal, persist, place if pending else None)
        self.records.note(opened)
        return opened

    def create_in_root(self, header: Header, persist: Persist, path: str) -> OpenSession:
        """Return a new session in a root, in the root's dialect.

        Raises InvalidParams, SessionExists, StorageError.
        """
        root = self.roots.require(path)
        if root.is_agents:
            text = f"the root has the files of {root.kind}, which are only read: leave root out"
            raise InvalidParams(text, path="root")
        line = header_line(root, header)
        self.require_free(header.id)
        homes = self.environment.homes()
        place = place_in_root(self.layout, self.files, root, header, homes)
        target = place.path
        if persist == "on_assistant" and place.appears != "created":
            target = self.layout.pending_path(header.id)
            note = self.layout.note_path(header.id)
            # A note of an earlier draft that was deleted would send this one elsewhere.
            with suppress(OSError):
                self.files.unlink(note)
            self.write_new(note, [note_of(place)])
        self.write_new(target, [line + b"\n"])
        try:
            opened = self._open(target, header.id)
        except BaseException:
            self.session_files.take_back(target)
            raise
        opened.created = True
        return opened

    def _new(
        self,
        header: Header,
        journal: Journal | MemoryJournal,
        persist: Persist,
        place: Path | None,
    ) -> OpenSession:
        session = Session(NATIVE.rules)
        return OpenSession(
            header.id,
            session,
            journal,
            NATIVE,
            header,
            LineIndexer(session, NATIVE, {header.id}),
            epoch=self.environment.new_epoch(),
            persist=persist,
            place=place,
            created_at=str(header.timestamp),
            created=True,
        )

    def adopt(self, session_id: str, chunks: Iterable[Sequence[bytes]]) -> Path:
        """Put the lines of a copy into the sessions folder as one file; return its path.

        Raises StorageError, TooLarge, and what `chunks` raises; there is no file then.
        """
        path = self.layout.session_path(session_id, self.environment.file_stamp())
        pieces = (b"\n".join([*_short_enough(lines), b""]) for lines in chunks)
        self.write_new(path, pieces)
        return path

    def make(self, session_id: str, chunks: Iterable[Sequence[bytes]]) -> OpenSession:
        """Put the lines of a copy into the sessions folder as one file, and open the session.

        Raises SessionExists, StorageError; no file was made then.
        """
        self.require_free(session_id)
        path = self.adopt(session_id, chunks)
        try:
            opened = self._open(path, session_id)
        except BaseException:
            # A refused copy leaves no file, so that a retry does not make a second one.
            self.session_files.take_back(path)
            raise
        opened.created = True
        return opened

    def require_free(self, session_id: str) -> None:
        """Raise SessionExists for an id that a file has, StorageError."""
        if self.session_files.find(session_id) is not None:
            raise SessionExists("a session of this id exists", session_id=session_id)

    # -- open ----------------------------------------------------------------------

    def open(self, session_id: str, progress: Progress | None = None) -> OpenSession:
        """Open a session by its id. Raises SessionNotFound, SessionCorrupt, SessionLocked.

        `progress` is told of the bytes of another agent's file, which may be large.
        """
        return self._open(self.session_files.require(session_id), session_id, progress)

    def reopen(self, opened: OpenSession) -> OpenSession:
        """Open the session again after another file took the place of the open one.

        The new file is another log, so it gets a new epoch. Raises what `open` raises.
        """
        opened.journal.close()
        assert opened.path is not None, "only files are replaced"
        self.records.renew(opened.session_id, opened.path)
        again = self.open(opened.session_id)
        # The catalog may not know the latest change of `hidden` yet.
        again.hidden = again.hidden and opened.hidden
        return again

    def identify(self, path: Path, is_open: Mapping[str, Path]) -> str:
        """Return the session id of a file anywhere. Raises SessionCorrupt, StorageError.

        `is_open` has the files outside the profile that are open, by session id.
        """
        # Two spellings of one path are one session. `realpath` leaves a circle of links as it is,
        # and reading the file then raises.
        path = Path(os.path.realpath(path))
        if printable(path) != str(path):
            text = f"{printable(path)} is not UTF-8, so no answer could name the file; rename it"
            raise StorageError(text, errno="EILSEQ", path=printable(path), retryable=False)
        own = self.layout.id_of(path)
        if own is not None:
            return own
        header_id = self.rows.header_id(path)
        for session_id, held in is_open.items():
            # Another program may have put a file with another id in the place of an open one.
            if os.path.realpath(held) == str(path):
                return session_id
        taken = self.session_files.find(header_id) if is_session_id(header_id) else None
        other = None if taken is None else str(taken)
        is_deleted = self.session_files.trash.has
        session_id, _ = self.records.identify(path, header_id, other, is_deleted)
        known = self.records.known(session_id)
        # A root may list the file under the name of a link.
        if known is None or os.path.realpath(known.path) != str(path):
            self.records.place(session_id, path)
        return session_id

    def _open(self, path: Path, session_id: str, progress: Progress | None = None) -> OpenSession:
        self.session_files.settle_names(path)
        if path.parent not in self.layout.folders:
            found = self.agents.recognise(path)
            if found is not None:
                return self._open_in_place(found, session_id, progress)
        indexer = Indexer(path, in_place=True, session_id=session_id)
        journal = open_unchanged(
            self.files,
            indexer,
            locks=self.layout.locks,
            stamp=self.environment.file_stamp,
            recall=partial(self.indexes.recall, session_id, indexer),
        )
        try:
            known = self.records.known(session_id)
            if (upgrade := indexer.upgrade) is not None:
                journal.translate(upgrade.again, upgrade.take)
            opened = self._assembly.opened(path, session_id, known, journal, indexer)
            if opened.elsewhere and opened.dialect.rules.sidecar_lock:
                journal.lock_beside()
            if opened.pending and opened.is_due:
                opened.promote()
            self.records.note(opened)
        except BaseException:
            journal.close()
            raise
        return opened

    def _open_in_place(
        self, found: AgentFile, session_id: str, progress: Progress | None
    ) -> OpenSession:
        """Open the session of another agent's file, which is only read."""
        log, indexer = self.agents.open(found, session_id, progress)
        try:
            known = self.records.known(session_id)
            opened = self._assembly.opened(found.path, session_id, known, log, indexer)
            self.records.note(opened)
        except BaseException:
            log.close()
            raise
        return opened

    def write_new(self, path: Path, pieces: Iterable[bytes]) -> None:
        """Write a new file of these bytes, private and durable. Raises StorageError (EEXIST)."""
        with telling("create", path):
            fd, lock = make_file(self.files, path, pieces, self.layout.locks)
        lock.release()
        # A close that fails still closes the descriptor, and the bytes are synced.
        with suppress(OSError):
            self.files.close(fd)

    def find_entry(
        self, entry_id: str, listed: Iterable[ListedFile], besides: Collection[str]
    ) -> str | None:
        """Return the session whose file has the entry, latest begun first; None without one.

        `listed` are the sessions in files under other names than sessiond's, and in roots. Sessions
        in `besides` are not read.
        """
        begun = {Path(one.path): (_stamp(one.created_at), one.session_id) for one in listed}
        for path in self.layout.scan(self.files, drafts=True):
            own = self.layout.id_of(path)
            if own is not None:
                # The name begins with the time when the session came here.
                begun[path] = path.name, own
        for path in sorted(begun, key=begun.__getitem__, reverse=True):
            session_id = begun[path][1]
            if session_id not in besides and self._has_entry(path, entry_id):
                return session_id
        return None

    def _has_entry(self, path: Path, entry_id: str) -> bool:
        indexer = Indexer(path, in_place=True)
        try:
            with telling("read", path):
                journal = Journal.read_only(self.files, path, indexer.visit_lines)
                try:
                    judge_tail(self.files, journal, indexer)
                finally:
                    journal.close()
        except SessiondError:
            # Lists report an unreadable file; here it only lacks the entry.
            return False
        return entry_id in indexer.session.ids

    def settle(self, opened: OpenSession) -> None:
        """Make a session's last entries durable before its file is released; keep a large index."""
        # The sync also cuts a file that a failed append damaged back to its last good byte.
        # A failure has no receiver here; every entry that a client was told of is durable.
        with suppress(StorageError):
            opened.journal.sync()
        if opened.appears != "answered" and not opened.pending:
            self.records.note(opened)
            self.remove_notes([opened.session_id])
        self.indexes.keep(opened)

    def remove_notes(self, session_ids: Collection[str]) -> None:
        """Remove the notes of sessions that came to their roots, once their records are durable.

        A note that stays is removed at the next start.
        """
        if session_ids:
            self.catalog.sync()
        # The records of a catalog in memory end with this process.
        for session_id in () if self.catalog.file.stands_in else session_ids:
            with suppress(OSError):
                self.files.unlink(self.layout.note_path(session_id))


def _stamp(created_at: str) -> str:
    """Return a time as the names of files spell times."""
    return created_at.replace(":", "-").replace(".", "-")


def _short_enough(lines: Sequence[bytes]) -> Sequence[bytes]:
    """Return the lines. Raises TooLarge for a line that no reader would take."""
    longest = max(map(len, lines), default=0)
    if longest > LINE_BYTES_MAX:
        text = "a line of the copy would exceed the limit of a line; nothing was copied"
        raise TooLarge(text, limit=LINE_BYTES_MAX, size=longest)
    return lines
