"""Making of session files: new ones, copies, drafts, and sessions that leave the memory. Blocking."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

from sessiond.dialects import dialect_named
from sessiond.dialects.native.dialect import NATIVE
from sessiond.journal.disk.failures import telling
from sessiond.journal.journal import Journal
from sessiond.journal.memory import MemoryBudget, MemoryJournal
from sessiond.journal.profile.making import make_file
from sessiond.journal.splitter import joined
from sessiond.model.entries import Header
from sessiond.service.files.opening import SessionOpener
from sessiond.service.files.profile import Profile
from sessiond.service.files.promotion import Promotion
from sessiond.service.files.roots.places import header_line, note_of, place_in_root
from sessiond.service.log.line_indexer import LineIndexer
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.session_info import Persist
from sessiond.service.store.lease_table import LeaseChange
from sessiond.service.store.refusals import id_is_taken, short_enough
from sessiond.service.store.roots import RootOfCopy
from sessiond.session.index import Session


class SessionMaker:
    """The maker of one profile's sessions."""

    def __init__(self, profile: Profile, opener: SessionOpener) -> None:
        self.memory = MemoryBudget()
        """Bytes that the sessions without files share."""
        self._opener = opener
        self._roots = profile.roots
        self._layout = profile.layout
        self._files, self._new_files = profile.files, profile.files_at
        self._environment = profile.environment
        self._records = profile.records
        self._places = profile.session_files

    def create(self, header: Header, persist: Persist, root: str | None = None) -> OpenSession:
        """Return a new session, native or in the dialect of a root.

        Raises InvalidParams, SessionExists, StorageError.
        """
        if root is None:
            return self._create(header, persist)
        return self._create_in_root(header, persist, root)

    def _create(self, header: Header, persist: Persist) -> OpenSession:
        session_id = header.id
        line = NATIVE.encode_header(header)
        self.require_free(session_id)
        if persist == "never":
            return self._new(header, MemoryJournal(line, self.memory), persist, None)
        place = self._layout.session_path(session_id, self._environment.file_stamp())
        pending = persist == "on_assistant"
        path = self._layout.pending_path(session_id) if pending else place
        journal = Journal.create(self._new_files(path), path, line, locks=self._layout.locks)
        opened = self._new(header, journal, persist, place if pending else None)
        self._records.note(opened)
        return opened

    def _create_in_root(self, header: Header, persist: Persist, path: str) -> OpenSession:
        root = self._roots.require_written(path)
        line = header_line(root, header)
        self.require_free(header.id)
        homes = self._environment.homes()
        place = place_in_root(self._layout, self._files, root, header, homes)
        target = place.path
        if persist == "on_assistant" and place.appears != "created":
            target = self._layout.pending_path(header.id)
            note = self._layout.note_path(header.id)
            # A note of an earlier draft that was deleted would send this one elsewhere.
            with suppress(OSError):
                self._files.unlink(note)
            with telling("create", note):
                told = note_of(self._files, place, note.parent)
            self.write_new(note, [told])
        self.write_new(target, [line + b"\n"])
        try:
            opened = self._opener.open_file(target, header.id)
        except BaseException:
            self._places.take_back(target)
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
            epoch=self._environment.new_epoch(),
            persist=persist,
            place=place,
            created_at=str(header.timestamp),
            created=True,
        )

    def make(
        self,
        session_id: str,
        chunks: Iterable[Sequence[bytes]],
        root: RootOfCopy | None = None,
    ) -> OpenSession:
        """Put the lines of a copy as one file into the sessions folder or a root, and open the session.

        Raises SessionExists, InvalidParams, TooLarge, StorageError, and what `chunks` raises; no file was made then.
        """
        self.require_free(session_id)
        path = self._layout.session_path(session_id, self._environment.file_stamp())
        # Neither holds a list of lines while the next one is made.
        lines: Iterator[Sequence[bytes]] = map(short_enough, chunks)
        if root is not None:
            first = next(lines)
            path = self._path_of_copy(root, first[0])
            lines = chain([first], lines)
            del first
        self.write_new(path, map(joined, lines))
        try:
            opened = self._opener.open_file(path, session_id)
        except BaseException:
            # A refused copy leaves no file, so that a retry does not make a second one.
            self._places.take_back(path)
            raise
        opened.created = True
        return opened

    def _path_of_copy(self, root: RootOfCopy, first_line: bytes) -> Path:
        """Return the path of a copy, by its first line, in a folder that exists then."""
        header = dialect_named(root.kind).decode_header(first_line)
        place = place_in_root(
            self._layout,
            self._files,
            self._roots.require(root.path),
            header,
            self._environment.homes(),
            root.folder,
        )
        return place.path

    def require_free(self, session_id: str) -> None:
        """Raise SessionExists for an id that a file has, StorageError."""
        if self._places.find(session_id) is not None:
            raise id_is_taken(session_id)

    def promote(
        self,
        opened: OpenSession,
        wanted: Persist,
        lines: Sequence[bytes],
        *,
        late: bool,
        leases: Sequence[LeaseChange] = (),
    ) -> None:
        """Bring a session to this level, with more lines; `late` as in `SessionLog.append`.

        Leases stay with the daemon. Raises SessionExists, StorageError, Overtaken, Replaced; nothing has
        changed then.
        """
        del leases
        stamp = self._environment.file_stamp()
        promotion = Promotion(self._layout, self._files, self._records, stamp, late)
        promotion.promote(opened, wanted, lines)

    def write_new(self, path: Path, pieces: Iterable[bytes]) -> None:
        """Write a new file of these bytes, private and durable. Raises StorageError (EEXIST)."""
        with telling("create", path):
            fd, lock = make_file(self._files, path, pieces, self._layout.locks)
        lock.release()
        # A close that fails still closes the descriptor, and the bytes are synced.
        with suppress(OSError):
            self._files.close(fd)
