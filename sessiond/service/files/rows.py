"""What lists show of files that are not open: read without owning them, for the catalog."""

from __future__ import annotations

from pathlib import Path

from sessiond.catalog.rows import Fingerprint, Known, Stored
from sessiond.journal.files import Files
from sessiond.journal.journal import Journal, scan
from sessiond.journal.layout import Layout
from sessiond.service.files.assembly import Assembly
from sessiond.service.files.indexer import Indexer
from sessiond.service.files.register import Register, snapshot
from sessiond.service.summary import SUMMED_KINDS, Summary, Tally

__all__ = ["Rows"]


class Rows:
    """The rows of one profile's files."""

    def __init__(
        self, layout: Layout, files: Files, register: Register, assembly: Assembly
    ) -> None:
        self._layout = layout
        self._files = files
        self._register = register
        self._assembly = assembly

    def header_id(self, path: Path) -> str:
        """The id in the first line of a file. Raises SessionCorrupt, StorageError."""
        indexer = Indexer(path, in_place=True)
        scan(self._files, path, indexer.visit, lines_max=1)
        return indexer.header.id

    def read(
        self, path: Path, session_id: str, known: Known | None, fingerprint: Fingerprint
    ) -> Stored:
        """The row of a file that is not open.

        What is summed up is taken from its lines as they pass by.
        """
        base = self._register.summary_of(known, path) if known is not None else Summary()
        indexer = Indexer(path, in_place=True)
        tally = kinds = None

        def visit(seq: int, line: bytes) -> None:
            nonlocal tally, kinds
            indexer.visit(seq, line)
            if tally is None or kinds is None:
                tally, kinds = Tally(indexer.dialect, base), indexer.session.kinds
            elif seq > base.seq and SUMMED_KINDS[kinds[-1]]:
                tally.take(kinds[-1], line)

        journal = Journal.read_only(self._files, path, visit)
        try:
            opened = self._assembly.opened(path, session_id, known, journal, indexer)
            # Of a file that is another by now, nothing was summed up before.
            if tally is not None and opened.summary == base:
                opened.summary = tally.summary(opened.session.seq)
            return self._register.row(snapshot(opened), fingerprint)
        finally:
            journal.close()

    def moved(self, known: Known, path: Path, fingerprint: Fingerprint) -> Stored:
        """The row of a file that was only given another place: it is not read again."""
        return self._register.moved(
            known,
            path,
            archived=self._layout.is_archived(path),
            draft=self._layout.is_pending(path),
        ) or self.read(path, known.session_id, known, fingerprint)
