"""Rows of files that are not open: read for the catalog without owning the files."""

from __future__ import annotations

from pathlib import Path

from sessiond.catalog.rows import Fingerprint, Known, Stored
from sessiond.journal.disk.failures import telling
from sessiond.journal.disk.files import Files
from sessiond.journal.journal import Journal, scan
from sessiond.journal.profile.layout import Layout
from sessiond.model.entries import Header
from sessiond.service.files.assembly import Assembly
from sessiond.service.files.catalog_records import CatalogRecords, snapshot
from sessiond.service.files.crash_recovery import judge_tail
from sessiond.service.files.indexer import Indexer
from sessiond.service.log.summary import SUMMED_KINDS, Summary, Tally

__all__ = ["Rows"]


class _Reading:
    """A pass over a file's lines that makes the index, and sums up the lines behind `base`."""

    def __init__(self, path: Path, session_id: str, base: Summary) -> None:
        self.indexer = Indexer(path, in_place=True, session_id=session_id)
        self._base = base
        self._tally: Tally | None = None
        self._kinds = bytearray()

    def visit(self, seq: int, line: bytes) -> None:
        """Index the next line. Raises SessionCorrupt for a bad header."""
        self.indexer.visit(seq, line)
        if seq == 0:
            self._tally = Tally(self.indexer.dialect, self._base)
            self._kinds = self.indexer.session.kinds
        elif self._tally is not None and seq > self._base.seq and SUMMED_KINDS[self._kinds[-1]]:
            self._tally.take(self._kinds[-1], line)

    def summary(self, seq: int) -> Summary:
        """Return the summary of everything up to `seq`, the last line."""
        return self._base if self._tally is None else self._tally.summary(seq)


class Rows:
    """The rows of one profile's files."""

    def __init__(
        self, layout: Layout, files: Files, register: CatalogRecords, assembly: Assembly
    ) -> None:
        self._layout = layout
        self._files = files
        self._register = register
        self._assembly = assembly

    def header_id(self, path: Path) -> str:
        """Return the id in the first line of a file. Raises SessionCorrupt, StorageError."""
        return self.header(path).id

    def header(self, path: Path) -> Header:
        """Return the first line of a file. Raises SessionCorrupt, StorageError."""
        indexer = Indexer(path, in_place=True)
        rest = scan(self._files, path, indexer.visit, lines_max=1)
        if rest and not indexer.has_begun:
            indexer.visit(0, rest)
        return indexer.header

    def read(
        self, path: Path, session_id: str, known: Known | None, fingerprint: Fingerprint
    ) -> Stored:
        """Return the row of a file that is not open. The pass that indexes also summarises."""
        base = self._register.summary_of(known, path) if known is not None else Summary()
        reading = _Reading(path, session_id, base)
        indexer = reading.indexer
        journal = Journal.read_only(self._files, path, reading.visit)
        try:
            with telling("read", path):
                judge_tail(self._files, journal, indexer, reading.visit)
            opened = self._assembly.opened(path, session_id, known, journal, indexer)
            # A replaced file has no earlier summary, so the one extended from `base` is not its own.
            if opened.summary == base:
                opened.summary = reading.summary(opened.session.seq)
            return self._register.row(snapshot(opened), fingerprint)
        finally:
            journal.close()

    def moved(self, known: Known, path: Path, fingerprint: Fingerprint) -> Stored:
        """Return the row of a file that only moved, without reading it if possible."""
        return self._register.moved(
            known,
            path,
            archived=self._layout.is_archived(path),
            draft=self._layout.is_pending(path),
        ) or self.read(path, known.session_id, known, fingerprint)
