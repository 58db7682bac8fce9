"""Places of session files: among the sessions, in the archive, in the trash, or elsewhere.

Law: a file is moved unchanged, and deleted only from the trash. Blocking, for worker threads. A
move of an open session's file runs in the session's writer; any other move has the file to itself
(`SessionRegistry.retire`).
"""

from __future__ import annotations

import errno
from contextlib import ExitStack, suppress
from pathlib import Path

from msgspec import structs

from sessiond.catalog.rows import Known
from sessiond.errors import InvalidParams, SessionNotFound, StorageError
from sessiond.journal.disk.failures import telling
from sessiond.journal.disk.files import Files, FileStat
from sessiond.journal.disk.lookup import is_same, is_taken
from sessiond.journal.profile.layout import Layout
from sessiond.journal.profile.lock import owned
from sessiond.journal.trash.restoring import Restoring
from sessiond.journal.trash.trash import Trash
from sessiond.limits import AVAILABLE_IDS_MAX
from sessiond.service.environment import Environment
from sessiond.service.files.catalog_records import CatalogRecords
from sessiond.service.files.checking.repairing import (
    bring_late_lines,
    bring_over,
    write_repaired,
)
from sessiond.service.files.checking.verifying import VerifyScope
from sessiond.service.files.headers import require_header
from sessiond.service.files.in_place import AgentFiles
from sessiond.service.files.kept_index import KeptIndexes
from sessiond.service.files.roots.roots import Roots
from sessiond.service.log.open_session import OpenSession
from sessiond.service.sources.agents.opencode.paths import Paths
from sessiond.service.store.checks import Repair
from sessiond.service.store.refusals import exists_again, lies_inside, still_there
from sessiond.session.draft import read_only
from sessiond.visible import printable


class SessionFiles:
    """The places of one profile's session files."""

    def __init__(  # noqa: PLR0913 - the parts of one profile
        self,
        layout: Layout,
        files: Files,
        records: CatalogRecords,
        indexes: KeptIndexes,
        environment: Environment,
        *,
        roots: Roots,
        agents: AgentFiles,
        paths: Paths,
    ) -> None:
        self._paths = paths
        self._roots = roots
        self._agents = agents
        self.trash = Trash(layout, files)
        self.restoring = Restoring(layout, files)
        self.moved = dict[str, Path]()
        """Paths to which other programs have moved files of open sessions, which the records do not have yet."""
        self._layout = layout
        self._files = files
        self._records = records
        self._indexes = indexes
        self._environment = environment
        self._unsynced: set[Path] = set()

    def require_folder(self) -> None:
        """Raise StorageError if the profile's folder is gone: no file can be found or made then."""
        root = self._layout.root
        with telling("look at", root):
            if self._files.exists(root):
                return
        text = f"the folder of the profile, {printable(root)}, is gone: put it back"
        raise StorageError(text, errno="ENOENT", path=printable(root), retryable=False)

    # -- finding ---------------------------------------------------------------------

    def find(self, session_id: str) -> Path | None:
        """Return the file of a session, wherever it lies; None without one. Raises StorageError."""
        found = self.find_all(session_id)
        return found[0] if found else None

    def has(self, session_id: str) -> bool:
        """Return whether a file of this id is recorded, listed or not. Raises StorageError."""
        return self.find(session_id) is not None

    def find_all(self, session_id: str) -> list[Path]:
        """Return every file of this id, beginning with the session's own. Raises StorageError."""
        self.require_folder()
        found = self._layout.find_all(self._files, session_id)
        if not found:
            known = self._records.known(session_id)
            if known is not None:
                path, there = Path(known.path), self.moved.get(session_id)
                with telling("look for", path):
                    found = [path] if self._paths.exists(path) else []
                    if not found and there is not None and self._paths.exists(there):
                        return [there]
                if found and self._is_taken_over(known):
                    return []
        return found

    def _is_taken_over(self, known: Known) -> bool:
        """Return whether the file at the path of an unlisted session is another session's."""
        others = [] if known.listed else self._records.others(known)
        listed = any(other.listed for other in others)
        return listed or (bool(others) and self.trash.has(known.session_id))

    def require(self, session_id: str) -> Path:
        """Return the file of a session, wherever it lies. Raises SessionNotFound, StorageError."""
        found = self.find(session_id)
        if found is None:
            raise self.not_found(session_id)
        return found

    def not_found(self, session_id: str) -> SessionNotFound:
        """Return the refusal for an id without a file; it lists available ids."""
        return SessionNotFound(
            "no session of this id",
            session_id=session_id,
            available=self._layout.session_ids(self._files)[:AVAILABLE_IDS_MAX],
        )

    def now(self) -> float:
        """Return the disk's clock, on which `written_at` is based."""
        return self._files.now()

    def written_at(self, session_id: str) -> int:
        """Return when a session's file was written last, in nanoseconds since 1970.

        Raises SessionNotFound, StorageError.
        """
        path = self.require(session_id)
        with telling("look at", path):
            return self._paths.stat(path).st_mtime_ns

    # -- the archive -----------------------------------------------------------------

    def archive(self, opened: OpenSession) -> None:
        """Move an open session's file into the archive, also a draft's. Safe to repeat.

        Raises InvalidParams for a session without a file in this profile, SessionReadOnly for another
        agent's, StorageError.
        """
        path = opened.path
        if path is None:
            raise InvalidParams(
                "the session is in memory only, so there is no file to archive",
                path="session_id",
            )
        if opened.unwritable == "other_agent":
            raise read_only("other_agent")
        path = opened.place or path
        if not self._layout.has(path):
            raise InvalidParams(
                "its file lies outside the profile, where its program looks for it;"
                " session/import makes a copy that can be archived",
                path="session_id",
            )
        self._move(opened, self._layout.archive / path.name)

    def unarchive(self, opened: OpenSession) -> None:
        """Move an open session's file back among the sessions. Safe to repeat. Raises StorageError.

        The file counts as written just now, so that a retention does not take the session at once.
        """
        path = opened.path
        if path is not None and opened.place is None and self._layout.has(path):
            if self._layout.is_archived(path):
                with telling("look at", path):
                    self._files.touch(path)
            self._move(opened, self._layout.sessions / path.name)

    def _move(self, opened: OpenSession, path: Path) -> None:
        old = opened.path
        assert old is not None, "a session in memory has no place"
        try:
            opened.journal.move(path)
        except StorageError:
            # A move that failed in its last step is undone: a refused move did not happen.
            with suppress(StorageError):
                opened.journal.move(old)
            raise
        finally:
            # If the undo fails too, the session goes on under the name that the file has.
            if opened.path == path:
                opened.place = None
                opened.archived = self._layout.is_archived(path)
        self._records.note(opened)

    # -- the trash -------------------------------------------------------------------

    def discard_unused(self, session_id: str, opened: OpenSession | None, before_ns: int) -> bool:
        """Move a session to the trash unless its file is archived, or was written to since a time."""
        # A client may have archived the session since it was listed.
        if self._layout.is_archived(self.require(session_id)):
            return False
        if self.written_at(session_id) >= before_ns:
            return False
        self.discard(session_id, opened)
        return True

    def discard(self, session_id: str, opened: OpenSession | None) -> None:
        """Move every file of a session to the trash. Safe to repeat.

        Raises SessionNotFound if there never was one, SessionCorrupt for a file outside the profile
        that is no session any more, SessionLocked, StorageError.
        """
        if opened is not None and opened.path is None:
            return
        found = self.find_all(session_id)
        self._indexes.forget(session_id)
        if not found:
            if not self.trash.of(session_id):
                raise self.not_found(session_id)
            self.trash.settle()
            return
        for path in found:
            self._require_own_program(path)
        with ExitStack() as locks:
            for path in found:
                if self._leads_nowhere(path):
                    # A broken link has no file to lock; the link alone goes to the trash.
                    continue
                locks.enter_context(owned(self._files, path, self._layout.locks))
                if not self._layout.has(path):
                    # Outside the profile only a header, not the name, shows that it is a session.
                    require_header(self._files, path)
            # The session's own file goes last: an interruption leaves it whole in its place.
            for path in reversed(found):
                self._take(path, session_id)

    def _require_own_program(self, path: Path) -> None:
        """Raise SessionReadOnly for a file of an agent that only that agent writes. Raises StorageError."""
        if not self._layout.has(path) and not self._leads_nowhere(path):
            found = self._agents.recognise(path)
            if found is not None:
                raise read_only("other_agent")

    def _leads_nowhere(self, path: Path) -> bool:
        """Return whether the name is a link to nothing. Raises StorageError."""
        with telling("look at", path):
            return is_taken(self._files, path) and not self._paths.exists(path)

    def require_elsewhere(self, session_id: str) -> None:
        """Raise InvalidParams for a session inside the profile.

        Raises SessionNotFound for an unknown one.
        """
        if self._layout.find(self._files, session_id) is not None:
            raise lies_inside()
        known = self._records.known(session_id)
        if known is None or self._layout.has(Path(known.path)):
            raise self.not_found(session_id)
        if self._roots.holds(Path(known.path)):
            text = "its file lies in a root, whose files are listed: remove the root with catalog/roots"
            raise InvalidParams(text, path="session_id")

    def restore(self, session_id: str) -> None:
        """Move the file of a deleted session back to its former place.

        Raises SessionExists, SessionNotFound, StorageError.
        """
        if self.find(session_id) is not None:
            raise exists_again(session_id)
        found = self.restoring.find(session_id)
        if found is None:
            text = "the trash has no session of this id"
            raise SessionNotFound(text, session_id=session_id)
        if found.origin is None:
            name = printable(found.path)
            text = f"the former place of the session is not recorded; call session/import for a copy of {name}"
            raise StorageError(text, errno="ENOENT", path=name, retryable=False)
        path = self.restoring.restore(found)
        known = self._records.known(session_id)
        # A name that tells another id, or none, is found by its record alone.
        is_named = self._layout.id_of(path) == session_id
        if not is_named and (known is None or known.path != str(path)):
            self._records.renew(session_id, path)

    def require_deleted(self, session_id: str) -> None:
        """Raise SessionExists, or SessionNotFound for a session that is not in the trash.

        Raises StorageError too.
        """
        if self.find(session_id) is not None:
            raise still_there(session_id)
        if not self.trash.has(session_id):
            raise self.not_found(session_id)

    def purge(self, session_id: str) -> None:
        """Remove a session's files in the trash for good. Raises StorageError."""
        self.trash.purge(session_id)
        self._indexes.forget(session_id)

    def repair(self, session_id: str) -> Repair:
        """Make a session's file anew without its bad lines, under a new epoch.

        Raises SessionNotFound, SessionCorrupt if it cannot be repaired, SessionLocked,
        StorageError.
        """
        found = self.require(session_id)
        # For a link, the file it leads to is made anew in its place.
        path = Path(self._files.real(found))
        self._require_own_program(path)
        with owned(self._files, path, self._layout.locks) as fd:
            look = VerifyScope(named=self._layout.id_of(found))
            written = write_repaired(self._files, path, fd, look)
            plan, unfinished = written.plan, written.unfinished
            if unfinished is None:
                return plan
            stamp = self._environment.file_stamp()
            name = f"{self._trash_name(found, session_id)}.before-repair-{stamp}"
            try:
                backup = self.trash.keep(path, name)
                # The new epoch comes first: too early it costs a replay, too late a gap.
                with telling("repair", path):
                    identity = self._files.fstat(fd)
                    self._records.expect_another(session_id, found, identity.st_ino)
                    covered = bring_over(self._files, fd, written.size, unfinished)
                    self._require_same(path, identity)
                    self._files.rename(unfinished, path)
            except StorageError:
                with suppress(OSError):
                    self._files.unlink(unfinished)
                raise
            self._unsynced.add(path.parent)
            try:
                with telling("repair", path):
                    bring_late_lines(self._files, fd, covered, path)
                self.settle_names(path)
            except StorageError:
                # Undo: a refused repair did not happen. If the undo fails, the new file is whole.
                with suppress(OSError):
                    self._files.link(backup, unfinished)
                    self._files.rename(unfinished, path)
                raise
        return structs.replace(plan, repaired=True, backup=str(backup))

    def _require_same(self, path: Path, identity: FileStat) -> None:
        if not is_same(self._files.lstat(path), identity):
            raise OSError(errno.ESTALE, "another program has put another file in its place")

    def settle_names(self, path: Path) -> None:
        """Make durable the name of a file that replaced another. Raises StorageError.

        Before the folder is synced, a power cut would bring the old file back, without the lines
        appended to the new one.
        """
        if not self._unsynced:
            return
        with telling("write", path.parent):
            folder = Path(self._files.real(path)).parent
            if folder in self._unsynced:
                self._files.fsync_folder(folder)
        self._unsynced.discard(folder)

    def take_back(self, path: Path) -> None:
        """Remove a file that was just put in place and reported to no client.

        On failure it stays.
        """
        with suppress(OSError):
            self._files.unlink(path)
            self._files.fsync_folder(path.parent)

    def discard_draft(self, opened: OpenSession) -> None:
        """Move the file of an abandoned draft to the trash. Raises StorageError."""
        assert opened.path is not None, "a draft has a file"
        self._take(opened.path, opened.session_id)

    def _take(self, path: Path, session_id: str) -> None:
        try:
            # A note records what the name in the trash cannot tell: another folder or name.
            usual = {
                self._layout.sessions / path.name,
                self._layout.pending_path(session_id),
            }
            note = self._layout.id_of(path) != session_id or path not in usual
            self.trash.take(path, self._trash_name(path, session_id), note=note)
        except StorageError:
            # The file may have been in the trash for a moment; a sync of its folder keeps a power
            # cut from putting it back there.
            self._unsynced.add(path.parent)
            raise

    def _trash_name(self, path: Path, session_id: str) -> str:
        return self._layout.trash_name(path, session_id, self._environment.file_stamp())
