"""Opening of session files: by id, by path, by an entry; and what is kept when one is closed. Blocking."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from sessiond.catalog.rows import ListedFile
from sessiond.errors import SessionCorrupt, SessiondError, SessionNotFound, StorageError
from sessiond.journal.disk.failures import telling
from sessiond.journal.journal import Journal
from sessiond.journal.mirror import Mirror
from sessiond.model.ids import is_session_id
from sessiond.service.files.crash_recovery import judge_tail, open_unchanged
from sessiond.service.files.in_place import AgentFile
from sessiond.service.files.profile import Profile
from sessiond.service.log.indexer import Indexer
from sessiond.service.log.open_session import OpenSession
from sessiond.service.ports import Progress
from sessiond.visible import printable


class SessionOpener:
    """The opener of one profile's session files, and of files anywhere."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._layout = profile.layout
        self._files = profile.files
        self._environment = profile.environment
        self._records = profile.records
        self._places = profile.session_files

    def open(self, session_id: str, progress: Progress | None = None) -> OpenSession:
        """Open a session by its id. Raises SessionNotFound, SessionCorrupt, SessionLocked, Overloaded.

        `progress` is told of the bytes of another agent's file, which may be large.
        """
        return self.open_file(self._places.require(session_id), session_id, progress)

    def reopen(self, opened: OpenSession) -> OpenSession:
        """Open the session again after another file took the place of the open one.

        The new file is another log, so it gets a new epoch. Raises what `open` raises.
        """
        place = self.place_of(opened)
        opened.journal.close()
        assert opened.path is not None, "only files are replaced"
        self._records.renew(opened.session_id, place or opened.path)
        # A row of the session may still be on its way into the catalog, with the path that it had.
        if place is None:
            again = self.open(opened.session_id)
        else:
            again = self.open_file(place, opened.session_id)
        # The catalog may not know the latest change of `hidden` yet.
        again.hidden = again.hidden and opened.hidden
        return again

    def place_of(self, opened: OpenSession) -> Path | None:
        """Return the path to which another program has moved the file of an open session; None where it was."""
        place = self._places.moved.get(opened.session_id)
        return None if place == opened.path else place

    def identify(self, path: Path, is_open: Mapping[str, Path]) -> str:
        """Return the session id of a file anywhere.

        `is_open` has the files outside the profile that are open, by session id. Raises SessionNotFound,
        SessionCorrupt, StorageError, Overloaded.
        """
        # Two spellings of one path are one session. `realpath` leaves a circle of links as it is,
        # and reading the file then raises.
        path = Path(self._files.real(path))
        if printable(path) != str(path):
            text = f"{printable(path)} is not UTF-8, so no answer could name the file; rename it"
            raise StorageError(text, errno="EILSEQ", path=printable(path), retryable=False)
        own = self._layout.id_of(path)
        if own is not None:
            return own
        try:
            header_id = self._profile.rows.header_id(path)
        except (SessionCorrupt, StorageError):
            self._require_begun(path)
            raise
        for session_id, held in is_open.items():
            # Another program may have put a file with another id in the place of an open one.
            if self._files.real(held) == str(path):
                return session_id
        taken = self._places.find(header_id) if is_session_id(header_id) else None
        other = None if taken is None else str(taken)
        is_deleted = self._places.trash.has
        session_id, _ = self._records.identify(
            path, header_id, other, is_deleted, self._records.catalog
        )
        known = self._records.known(session_id)
        # A root may list the file under the name of a link.
        if known is None or self._files.real(known.path) != str(path):
            self._records.place(session_id, path)
        return session_id

    def _require_begun(self, path: Path) -> None:
        """Raise SessionNotFound for a file of a root that its program has not made yet, or not begun.

        An agent tells its hooks the file before there is a message; nothing is damaged then.
        """
        if not self._profile.roots.holds(path):
            return
        try:
            size = self._files.stat(path).st_size
        except FileNotFoundError:
            reason = "is not there yet"
        except OSError:
            return
        else:
            if size and not self._profile.roots.agent_at(path):
                return
            reason = "has no message yet"
        raise SessionNotFound(
            f"the file {reason}, so its program has not begun the session: ask again, or watch the catalog",
            path=printable(path),
            retryable=True,
        )

    def open_file(
        self, path: Path, session_id: str, progress: Progress | None = None
    ) -> OpenSession:
        """Open the session of a file. Raises what `open` raises."""
        self._places.settle_names(path)
        if not self._layout.has(path):
            found = self._profile.agents.recognise(path)
            if found is not None:
                return self._open_in_place(found, session_id, progress)
        indexer = Indexer(path, in_place=True, session_id=session_id)
        journal = open_unchanged(
            self._profile.files_at(path),
            indexer,
            locks=self._layout.locks,
            stamp=self._environment.file_stamp,
            recall=partial(self._profile.indexes.recall, session_id, indexer),
        )
        try:
            known = self._records.known(session_id)
            if (upgrade := indexer.upgrade) is not None:
                journal.translate(upgrade.again, upgrade.take, upgrade.spelled)
            opened = self._profile.assembly.opened(path, session_id, known, journal, indexer)
            if not journal.is_writable and opened.unwritable is None:
                opened.unwritable = "not_writable"
            if opened.elsewhere and opened.dialect.rules.sidecar_lock:
                journal.lock_beside()
            if opened.pending and opened.is_due:
                opened.promote()
            self._records.note(opened)
        except BaseException:
            journal.close()
            raise
        return opened

    def _open_in_place(
        self, found: AgentFile, session_id: str, progress: Progress | None
    ) -> OpenSession:
        """Open the session of another agent's file, which is only read."""
        log, indexer = self._profile.agents.open(found, session_id, progress, keeps=True)
        try:
            known = self._records.known(session_id)
            opened = self._profile.assembly.opened(found.path, session_id, known, log, indexer)
            self._records.note(opened)
        except BaseException:
            log.close()
            raise
        return opened

    def find_entry(
        self, entry_id: str, listed: Iterable[ListedFile], besides: Collection[str]
    ) -> str | None:
        """Return the session whose file has the entry, latest begun first; None without one.

        `listed` are the sessions in files under other names than sessiond's, and in roots. Sessions
        in `besides` are not read.
        """
        begun = {Path(one.path): (_stamp(one.created_at), one.session_id) for one in listed}
        for path in self._layout.scan(self._files, drafts=True):
            own = self._layout.id_of(path)
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
            if not self._layout.has(path):
                found = self._profile.agents.recognise(path)
                if found is not None:
                    indexer.begin_as(found.dialect, found.header)
                    for seq, line in self._profile.agents.lines(found):
                        indexer.visit(seq, line)
                    return entry_id in indexer.session.ids
            with telling("read", path):
                journal = Journal.read_only(self._files, path, indexer.visit_lines)
                try:
                    judge_tail(self._files, journal, indexer)
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
            self._records.note(opened)
            self.remove_notes([opened.session_id])
        if isinstance(opened.journal, Journal):
            self._profile.indexes.keep(opened.session_id, opened, opened.journal)
        elif isinstance(opened.journal, Mirror):
            self._profile.agents.keep(opened, opened.journal)

    def remove_notes(self, session_ids: Collection[str]) -> None:
        """Remove the notes of sessions that came to their roots, once their records are durable.

        A note that stays is removed at the next start.
        """
        if session_ids:
            self._profile.catalog.sync()
        # The records of a catalog in memory end with this process.
        for session_id in () if self._profile.catalog.file.stands_in else session_ids:
            with suppress(OSError):
                self._files.unlink(self._layout.note_path(session_id))


def _stamp(created_at: str) -> str:
    """Return a time as the names of files spell times."""
    return created_at.replace(":", "-").replace(".", "-")
