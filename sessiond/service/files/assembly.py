"""Assembly of an open session from its file's lines and the catalog's record of the file."""

from __future__ import annotations

from pathlib import Path

from sessiond.catalog.rows import Known
from sessiond.journal.journal import Journal
from sessiond.journal.profile.layout import Layout
from sessiond.model.times import rfc3339
from sessiond.service.environment import Environment
from sessiond.service.files.catalog_records import CatalogRecords
from sessiond.service.files.indexer import Indexer
from sessiond.service.files.roots import Roots
from sessiond.service.log.open_session import OpenSession

__all__ = ["Assembly"]


class Assembly:
    """Builder of open sessions: adds to a file's lines what the profile knows of the file."""

    def __init__(
        self, layout: Layout, records: CatalogRecords, environment: Environment, roots: Roots
    ) -> None:
        self._layout = layout
        self._roots = roots
        self._records = records
        self._environment = environment

    def opened(
        self,
        path: Path,
        session_id: str,
        known: Known | None,
        journal: Journal,
        indexer: Indexer,
    ) -> OpenSession:
        """Return the open session of a file whose lines were indexed."""
        place = None
        if self._layout.is_pending(path):
            place = self._layout.session_path(session_id, self._environment.file_stamp())
        elsewhere = path.parent not in self._layout.folders
        is_listed = self._roots.holds(path) or (known is not None and known.listed)
        return OpenSession(
            session_id,
            indexer.session,
            journal,
            indexer.dialect,
            indexer.header,
            indexer.intake,
            epoch=self._records.recall(known, journal),
            persist="immediate" if place is None else "on_assistant",
            place=place,
            created_at=rfc3339(indexer.header.timestamp),
            unwritable="older_version" if indexer.upgrade is not None else None,
            archived=self._layout.is_archived(path),
            elsewhere=elsewhere,
            hidden=elsewhere and not is_listed,
        )
