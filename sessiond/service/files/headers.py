"""Check of a file's first line: only a header makes the file a session."""

from __future__ import annotations

from pathlib import Path

from sessiond.errors import SessionCorrupt
from sessiond.journal.disk.files import Files
from sessiond.journal.scanning import scan
from sessiond.service.log.indexer import Indexer
from sessiond.visible import printable


def require_header(files: Files, path: Path) -> None:
    """Raise SessionCorrupt for a file that does not begin with a header.

    Raises StorageError for a file that cannot be read.
    """
    indexer = Indexer(path)
    try:
        scan(files, path, indexer.visit, lines_max=1)
        has_header = indexer.has_begun
    except SessionCorrupt:
        has_header = False
    if not has_header:
        raise SessionCorrupt(
            f"{printable(path)} lies outside the profile and begins with no session header (any"
            " more), so it was left alone: if it is to go, remove it yourself",
            path=printable(path),
            line=1,
            repairable=False,
        )
