"""Rows of files that are not open: read for the catalog without owning the files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sessiond.catalog.rows import Fingerprint, Known, Stored
from sessiond.dialects.base import Dialect
from sessiond.journal.disk.failures import telling
from sessiond.journal.disk.files import Files
from sessiond.journal.journal import Journal, scan
from sessiond.journal.profile.layout import Layout
from sessiond.model.entries import Header
from sessiond.service.files.assembly import Assembly
from sessiond.service.files.catalog_records import CatalogRecords, snapshot
from sessiond.service.files.crash_recovery import judge_tail
from sessiond.service.files.indexer import Indexer

__all__ = ["Rows"]


class Rows:
    """The rows of one profile's files."""

    def __init__(
        self, layout: Layout, files: Files, records: CatalogRecords, assembly: Assembly
    ) -> None:
        self._layout = layout
        self._files = files
        self._records = records
        self._assembly = assembly

    def header_id(self, path: Path) -> str:
        """Return the id in the first line of a file. Raises SessionCorrupt, StorageError."""
        return self.header(path).id

    def header(self, path: Path) -> Header:
        """Return the first line of a file. Raises SessionCorrupt, StorageError."""
        return self._begun(path).header

    def dialect(self, path: Path) -> Dialect:
        """Return the dialect of a file. Raises SessionCorrupt, StorageError."""
        return self._begun(path).dialect

    def _begun(self, path: Path) -> Indexer:
        indexer = Indexer(path, in_place=True)
        rest = scan(self._files, path, indexer.visit, lines_max=1)
        if rest and not indexer.has_begun:
            indexer.visit(0, rest)
        return indexer

    def read(
        self, path: Path, session_id: str, known: Known | None, fingerprint: Fingerprint
    ) -> Stored:
        """Return the row of a file that is not open."""
        indexer = Indexer(path, in_place=True, session_id=session_id)
        return self._read(indexer, known, fingerprint)

    def read_new(
        self, path: Path, identify: Callable[[str], str], fingerprint: Fingerprint
    ) -> Stored:
        """Return the row of a file without a record, in one opening.

        `identify` gives the session id by the id in the header; what `identify` raises ends the
        reading.
        """
        indexer = Indexer(path, in_place=True, identify=identify)
        return self._read(indexer, None, fingerprint)

    def _read(self, indexer: Indexer, known: Known | None, fingerprint: Fingerprint) -> Stored:
        path = indexer.path
        journal = Journal.read_only(self._files, path, indexer.visit_lines)
        try:
            with telling("read", path):
                judge_tail(self._files, journal, indexer)
            if (upgrade := indexer.upgrade) is not None:
                journal.translate(upgrade.again, upgrade.take)
            session_id = indexer.session_id or indexer.header.id
            opened = self._assembly.opened(path, session_id, known, journal, indexer)
            return self._records.row(snapshot(opened), fingerprint)
        finally:
            journal.close()

    def moved(self, known: Known, path: Path, fingerprint: Fingerprint) -> Stored:
        """Return the row of a file that only moved, without reading it if possible."""
        return self._records.moved(
            known,
            path,
            archived=self._layout.is_archived(path),
            draft=self._layout.is_pending(path),
        ) or self.read(path, known.session_id, known, fingerprint)
