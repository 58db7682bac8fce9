"""Assembly of an open session from its file's lines and the catalog's record of the file."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from sessiond.catalog.rows import Known
from sessiond.dialects.agents.view import AgentDialect
from sessiond.journal.disk.failures import telling
from sessiond.journal.disk.files import Files
from sessiond.journal.profile.layout import Layout
from sessiond.journal.store import SessionLog
from sessiond.model.events import ReadOnlyReason
from sessiond.model.times import rfc3339
from sessiond.service.environment import Environment
from sessiond.service.files.catalog_records import CatalogRecords
from sessiond.service.files.roots.places import read_note
from sessiond.service.files.roots.roots import Roots
from sessiond.service.log.indexer import Indexer
from sessiond.service.log.open_session import OpenSession


class Assembly:
    """Builder of open sessions: adds to a file's lines what the profile knows of the file."""

    def __init__(
        self,
        layout: Layout,
        files: Files,
        records: CatalogRecords,
        environment: Environment,
        *,
        roots: Roots,
    ) -> None:
        self._layout = layout
        self._files = files
        self._roots = roots
        self._records = records
        self._environment = environment

    def opened(  # noqa: PLR0913 - a file, its lines, and what is known of it
        self,
        path: Path,
        session_id: str,
        known: Known | None,
        journal: SessionLog,
        indexer: Indexer,
        *,
        epoch: str | None = None,
    ) -> OpenSession:
        """Return the open session of a file whose lines were indexed, under an epoch, or the one that the lines fit."""
        place, note = None, None
        if self._layout.is_pending(path):
            note = read_note(self._files, self._layout.note_path(session_id))
            if note is not None and self._is_taken(Path(note.path), journal):
                note = None
            place = self._layout.session_path(session_id, self._environment.file_stamp())
            place = place if note is None else Path(note.path)
        elsewhere = not self._layout.has(place or path)
        is_listed = self._roots.holds(path) or (known is not None and known.listed)
        opened = OpenSession(
            session_id,
            indexer.session,
            journal,
            indexer.dialect,
            indexer.header,
            indexer.intake,
            epoch=epoch or self._records.recall(known, journal),
            persist="immediate" if place is None else "on_assistant",
            place=place,
            created_at=rfc3339(indexer.header.timestamp),
            unwritable=_unwritable(indexer),
            archived=self._layout.is_archived(path),
            waits_at=self._roots.place_of(str(place or path)),
            elsewhere=elsewhere,
            hidden=elsewhere and place is None and not is_listed,
            appears="answered" if note is None else note.appears,
        )
        # The last message may be long: this is a worker thread, where its line may be read.
        opened.endings.read(opened.session, journal, opened.dialect)
        return opened

    def _is_taken(self, path: Path, journal: SessionLog) -> bool:
        """Return whether another file has a draft's place, as where a home was brought back to an earlier moment."""
        with telling("look for", path), suppress(FileNotFoundError):
            return self._files.stat(path).st_ino != journal.inode
        return False


def _unwritable(indexer: Indexer) -> ReadOnlyReason | None:
    """Return why sessiond never writes to a file; None if sessiond may."""
    if isinstance(indexer.dialect, AgentDialect):
        return "other_agent"
    return "older_version" if indexer.is_only_read else None
