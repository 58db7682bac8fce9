"""Lines of a session file as `dump` shows them, however damaged the file is.

Law: every byte of the file belongs to one line, and no line is left out; this module never writes
or locks the file and never judges it as a whole.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from sessiond.dialects import DIALECTS, sniff
from sessiond.dialects.base import BadLine, Dialect
from sessiond.dialects.lenient_json import lenient, text
from sessiond.journal.disk.files import Files
from sessiond.journal.disk.regular import check_regular, open_regular
from sessiond.journal.scanning import chunks_of
from sessiond.journal.splitter import LongLine, Splitter, stored_size, without_end
from sessiond.service.log.line_indexer import too_long

__all__ = ["Line", "lines_of"]


class Line(Struct, frozen=True):
    """Line of a file: its place and its entry. `problem` says why the line is no entry."""

    line: int
    """Number of the line from 1, as in messages about files; its seq is one less."""
    offset: int
    size: int
    """Bytes with the newline."""
    type: str | None = None
    id: str | None = None
    parent_id: str | None = None
    problem: str | None = None
    preview: str | None = None


class _Named(Struct):
    type: str | None
    id: str | None


def lines_of(path: Path, *, with_preview: bool) -> Iterator[Line]:
    """Yield every line of a file in order, also a torn line at the end. Raise OSError."""
    reader = _Reader(with_preview=with_preview)
    files = Files()
    fd = open_regular(files, path)
    try:
        for chunk in chunks_of(files, fd, 0, check_regular(files, fd)):
            yield from reader.feed(chunk)
    finally:
        files.close(fd)
    yield from reader.end()


class _Reader:
    """Lines out of chunks; the first line decides the dialect."""

    def __init__(self, *, with_preview: bool) -> None:
        self._ends = array("Q")
        self._splitter = Splitter(self._ends)
        self._dialect: Dialect | None = None
        self._with_preview = with_preview
        self._offset = 0

    def feed(self, chunk: bytes) -> Iterator[Line]:
        """Yield the lines that this chunk completes."""
        first = len(self._ends)
        for ordinal, line in enumerate(self._splitter.feed(chunk), first):
            end = self._ends[ordinal]
            yield self._line(ordinal, end - self._offset, without_end(line))
            self._offset = end

    def end(self) -> Iterator[Line]:
        """Yield the rest that has no newline at its end."""
        if rest := self._splitter.rest():
            line = self._line(len(self._ends), stored_size(rest), rest)
            torn = "has no newline at its end: torn, or being written"
            problem = f"{line.problem}; it {torn}" if line.problem else torn
            yield msgspec.structs.replace(line, problem=problem)

    def _line(self, ordinal: int, size: int, data: bytes) -> Line:
        place = (ordinal + 1, self._offset, size)
        if not data.strip():
            return Line(*place, problem="is blank")
        if isinstance(data, LongLine):
            return Line(*place, problem=too_long(data))
        if ordinal == 0 and (dialect := sniff(data)) is not None:
            self._dialect = dialect
            header = dialect.decode_header(data)
            return Line(*place, type="session_header", id=header.id)
        return self._entry(place, data)

    def _entry(self, place: tuple[int, int, int], data: bytes) -> Line:
        # A file without a known header may still hold lines of a known dialect.
        dialects = DIALECTS if self._dialect is None else (self._dialect,)
        problem = ""
        for dialect in dialects:
            try:
                row = dialect.row(data)
            except BadLine as bad:
                problem = problem or str(bad)
                continue
            preview = dialect.preview(data) if self._with_preview else None
            flaw = "is no session header of a known format" if place[0] == 1 else None
            kind = _named(data).type
            return Line(*place, kind, row.id, row.parent_id, problem=flaw, preview=preview)
        named = _named(data)
        return Line(*place, named.type, named.id, problem=problem)


def _named(data: bytes) -> _Named:
    found = lenient(data)
    return _Named(text(found.get("type")), text(found.get("id")))
