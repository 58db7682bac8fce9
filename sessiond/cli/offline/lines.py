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

from sessiond.cli.offline.file_formats import content_of
from sessiond.dialects import DIALECTS, sniff
from sessiond.dialects.agents.reading import Reading
from sessiond.dialects.agents.source_line import source_line
from sessiond.dialects.agents.view import AgentDialect
from sessiond.dialects.base import BadLine, Dialect, Upgrade
from sessiond.dialects.lenient_json import lenient, text
from sessiond.dialects.native.dialect import NATIVE
from sessiond.journal.splitter import LongLine, Splitter, stored_size, without_end
from sessiond.service.log.line_indexer import too_long


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
    """Yield every line of a file in order, also a torn line at the end.

    A file that is one document counts as a line, and where an agent keeps no lines the ones that stand
    for its records count. Raises OSError, Failure for a store of several sessions.
    """
    content = content_of(path)
    if content.document is not None:
        yield Line(1, 0, sum(map(len, content.chunks)), content.document)
        return
    reader = _Reader(content.agent, with_preview=with_preview)
    for chunk in content.chunks:
        yield from reader.feed(chunk)
    yield from reader.end()


class _Reader:
    """Lines out of chunks, of an agent's file or of a dialect's, which the first line decides."""

    def __init__(self, agent: Reading | None, *, with_preview: bool) -> None:
        self._agent = agent
        self._ends = array("Q")
        self._splitter = Splitter(self._ends)
        self._dialect: Dialect | None = None
        self._older: Upgrade | None = None
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
        if self._agent is not None:
            return self._record(self._agent, place, data)
        if ordinal == 0 and (dialect := sniff(data)) is not None:
            self._dialect, self._older = dialect, dialect.upgrade(data)
            header = dialect.decode_header(data)
            return Line(*place, type="session_header", id=header.id)
        return self._entry(place, data)

    def _record(self, agent: Reading, place: tuple[int, int, int], data: bytes) -> Line:
        try:
            source = source_line(place[0], data)
            line = NATIVE.encode(agent.take(source))
        except BadLine as bad:
            named = _named(data)
            return Line(*place, named.type, named.id, problem=str(bad))
        links = agent.links(source)
        preview = AgentDialect(agent.origin.agent).preview(line) if self._with_preview else None
        name = links.name or source.word("id")
        return Line(*place, source.word("type"), name, links.parent, preview=preview)

    def _entry(self, place: tuple[int, int, int], data: bytes) -> Line:
        named = _named(data)
        if self._older is not None:
            data = self._older.take(data)
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
            return Line(*place, named.type, row.id, row.parent_id, problem=flaw, preview=preview)
        return Line(*place, named.type, named.id, problem=problem)


def _named(data: bytes) -> _Named:
    found = lenient(data)
    return _Named(text(found.get("type")), text(found.get("id")))
