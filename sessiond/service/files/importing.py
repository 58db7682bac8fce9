"""Import: the lines of a foreign or exported file, checked, under a new id.

The copy stays in the dialect of its source, so an export in that format gives equal JSON values. An
older version of a dialect is migrated to the current one. The source is read, never written.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from sessiond.dialects.base import BadLine
from sessiond.errors import InvalidParams, SessionCorrupt, TooLarge
from sessiond.journal.disk.failures import telling
from sessiond.journal.disk.files import Files
from sessiond.journal.disk.regular import check_regular, open_regular
from sessiond.journal.scanning import chunks_of, feed
from sessiond.journal.splitter import LongLine, Splitter, without_end
from sessiond.limits import IMPORT_BYTES_MAX, PROGRESS_LINES
from sessiond.model.problems import Problem
from sessiond.service.files.indexer import Indexer
from sessiond.service.log.line_indexer import too_long
from sessiond.service.ports import Progress

__all__ = ["ImportReport", "ImportSource", "read_import", "read_source", "source_of"]


class ImportSource(Struct, frozen=True):
    """The content to import and its name. `tail` holds the bytes behind the last newline."""

    name: str
    lines: list[bytes]
    tail: bytes


class ImportReport(Struct, frozen=True):
    """The result of an import; `migrated_from` is the older version of the source, if any."""

    format: str
    migrated_from: int | None
    entries: int
    problems: list[Problem]


def read_source(path: Path, files: Files) -> ImportSource:
    """Return the content of a file to import. Raises SessionCorrupt, StorageError, TooLarge."""
    with telling("read", path):
        fd = open_regular(files, path)
        try:
            size = check_regular(files, fd)
            if size > IMPORT_BYTES_MAX:
                raise TooLarge(
                    f"{path.name} is too large to be imported", limit=IMPORT_BYTES_MAX, size=size
                )
            return source_of(str(path), chunks_of(files, fd, 0, size))
        finally:
            files.close(fd)


def source_of(name: str, chunks: Iterable[bytes]) -> ImportSource:
    """Return the content of `chunks` to import.

    Raises SessionCorrupt for a line that is too long.
    """
    lines: list[bytes] = []
    splitter = Splitter(array("q", [0]))
    for _, found in feed(splitter, chunks):
        for line in found:
            if isinstance(line, LongLine):
                raise _corrupt(name, len(lines) + 1, too_long(line))
            lines.append(without_end(line))
    return ImportSource(name, lines, splitter.rest())


def read_import(
    source: ImportSource,
    *,
    wanted: str,
    session_id: str,
    cwd: str | None,
    progress: Progress,
) -> tuple[list[bytes], ImportReport]:
    """Return the lines of the copy. Raises InvalidParams, SessionCorrupt naming file and line."""
    name = source.name
    lines, torn = source.lines, source.tail
    indexer = Indexer(Path(name))
    if not lines and torn:
        lines, torn = [torn], b""
    indexer.visit(0, lines[0] if lines else b"")
    dialect = indexer.dialect
    if wanted not in {"auto", dialect.name}:
        raise InvalidParams(f"the file is in format {dialect.name}", path="format")
    problems: list[Problem] = []
    if torn.strip():
        if indexer.parses(torn):
            lines.append(torn)
        else:
            problems.append(Problem(len(lines) + 1, "torn_tail", "half a line was left out"))
    version = indexer.header.version
    current = dialect.migrate(lines)
    problems += _check(current, name, progress)
    current[0] = dialect.copied_header(current[0], session_id, cwd)
    header = dialect.decode_header(current[0])
    current[1:] = [dialect.restated(line, header) for line in current[1:]]
    return current, ImportReport(
        format=dialect.name,
        migrated_from=version if isinstance(version, int) and current[1:] != lines[1:] else None,
        entries=sum(1 for line in current[1:] if line.strip()),
        problems=problems,
    )


def _check(lines: list[bytes], name: str, progress: Progress) -> list[Problem]:
    """Return the problems of the lines. Raises SessionCorrupt for a line that is no entry."""
    indexer = Indexer(Path(name), strict=True)
    try:
        for seq, line in enumerate(lines):
            indexer.visit(seq, line)
            if not (seq + 1) % PROGRESS_LINES:
                progress.report(seq + 1, len(lines), "lines")
    except BadLine as bad:
        raise _corrupt(name, indexer.session.seq + 2, str(bad)) from bad
    return indexer.session.problems


def _corrupt(name: str, line: int, why: str) -> SessionCorrupt:
    return SessionCorrupt(
        f"{name}, line {line}: {why}; nothing was imported and the file is unchanged",
        path=name,
        line=line,
        repairable=False,
    )
