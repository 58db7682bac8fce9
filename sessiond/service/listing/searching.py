"""Search in what was said: updates the index of the lines, then asks the index.

Rule 1: an answer covers every append that was stored before the question. The catalog says how far
a session's lines go, and lines that the index lacks are read first.

Rule 2: nothing is indexed before the first search; from then on each search adds what is new.

Rule 3: a session without a file is never indexed, nor is a line that is not on disk yet.

Rule 4: the file of another agent is indexed up to AGENT_TEXT_CHARS_MAX. The catalog may have seen only a
part of such a file, so the size of the file says whether the index is behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import anyio
from anyio import to_thread
from msgspec import Struct

from sessiond.catalog.catalog import Catalog
from sessiond.catalog.fulltext import Found, Indexed, Text
from sessiond.catalog.query import Query
from sessiond.catalog.rows import Known
from sessiond.dialects import recognise
from sessiond.dialects.base import BadHeader, BadLine, Dialect, Upgrade
from sessiond.dialects.words import header_words
from sessiond.errors import StorageError
from sessiond.journal.disk.files import Files
from sessiond.journal.scanning import lines_from
from sessiond.limits import AGENT_TEXT_CHARS_MAX, SEARCH_BATCH_CHARS
from sessiond.service.files.catalog_records import fits_line
from sessiond.service.files.store import Store
from sessiond.service.listing.live_catalog import LiveCatalog
from sessiond.service.ports import Progress

__all__ = ["Search"]


class _Stock(Struct, frozen=True):
    """The sessions that exist, and those that a search covers."""

    known: Mapping[str, Known]
    wanted: Sequence[str]


class Search:
    """The searches of one profile, one at a time."""

    def __init__(self, live_catalog: LiveCatalog, store: Store) -> None:
        self._live_catalog = live_catalog
        self._files = store.files
        self._index = store.texts
        self._agents = store.agents
        self._roots = store.roots
        self._turn = anyio.Lock()

    async def find(self, match: str, query: Query, limit: int, progress: Progress) -> list[Found]:
        """Return the best hits in the sessions of `query`. Raises StorageError."""

        def stock(catalog: Catalog) -> _Stock:
            known = {row.session_id: row for row in catalog.all() if row.listed}
            return _Stock(known, [found for found in catalog.ids(query) if found in known])

        async with self._turn:
            there = await self._live_catalog.ask(stock, progress)
            behind = await to_thread.run_sync(self._compare, there)
            for done, session_id in enumerate(behind, 1):
                # One session per step, so that a cancelled search stops.
                await to_thread.run_sync(self._add, there.known[session_id])
                progress.report(done, len(behind), "sessions")
            return await to_thread.run_sync(self._index.find, match, there.wanted, limit)

    def _compare(self, there: _Stock) -> list[str]:
        """Remove deleted sessions from the index.

        Return the wanted sessions with lines to index.
        """
        indexed = self._index.indexed()
        self._index.forget(indexed.keys() - there.known.keys())
        return [
            session_id
            for session_id in there.wanted
            if not self._is_current(indexed.get(session_id), there.known[session_id])
        ]

    def _is_current(self, indexed: Indexed | None, known: Known) -> bool:
        if indexed is None or indexed.epoch != known.mark.epoch:
            return False
        if self._roots.agent_at(Path(known.path)):
            return indexed.end == _end_of(known)
        return indexed.seq == known.mark.seen_seq

    def _add(self, known: Known) -> None:
        """Index the lines that the index lacks. Lists report a file that cannot be read."""
        indexed = self._index.indexed_of(known.session_id)
        is_agents = self._roots.agent_at(Path(known.path))
        if indexed is not None and not _goes_on(indexed, known, is_agents=is_agents):
            indexed = None
        anew = indexed is None
        try:
            read = self._read_in_place if is_agents else partial(_read, self._files)
            for mark, texts in read(known, indexed):
                self._index.put(known.session_id, mark, texts, anew=anew)
                anew = False
        except (_Changed, StorageError) as error:
            if isinstance(error, StorageError) and error.data()["errno"] != "ENOENT":
                raise
            # The file is not the one that lists know; the next scan of the folders finds out.
            self._index.forget([known.session_id])

    def _read_in_place(
        self, known: Known, indexed: Indexed | None
    ) -> Iterator[tuple[Indexed, list[Text]]]:
        """Yield the texts of the lines of another agent's file behind `indexed`, in batches."""
        found = self._agents.recognise(Path(known.path))
        if found is None:
            raise _Changed
        behind = -1 if indexed is None else indexed.seq
        texts: list[Text] = []
        chars = total = seq = 0
        for seq, line in self._agents.lines(found):
            text = _text(found.dialect, seq, line)
            if text is None:
                continue
            total += len(text.text)
            if total > AGENT_TEXT_CHARS_MAX:
                break
            if seq > behind:
                texts.append(text)
                chars += len(text.text)
            if chars > SEARCH_BATCH_CHARS:
                # Only the last batch says that the file was read to its end.
                yield Indexed(known.mark.epoch, seq, 0), texts
                texts, chars = [], 0
        yield Indexed(known.mark.epoch, max(seq, behind), _end_of(known)), texts


def _end_of(known: Known) -> int:
    """Return a number that grows with another agent's file; a row of a database has a time alone."""
    return known.fingerprint.size or known.fingerprint.mtime_ns


class _Changed(Exception):
    """Signal that the file is not the one that was recorded."""


def _goes_on(indexed: Indexed, known: Known, *, is_agents: bool) -> bool:
    is_behind = is_agents or indexed.seq < known.mark.seen_seq
    return indexed.epoch == known.mark.epoch and is_behind


def _read(
    files: Files, known: Known, indexed: Indexed | None
) -> Iterator[tuple[Indexed, list[Text]]]:
    """Yield the texts of the lines behind `indexed`, in batches, up to the recorded line."""
    mark, path = known.mark, Path(known.path)
    dialect, first, upgrade = _header(files, path)
    texts: list[Text] = []
    chars = 0
    behind = -1 if indexed is None else indexed.seq
    # The lines of an older version depend on the lines before them.
    seq, begin = (0, 0) if indexed is None or upgrade is not None else (behind + 1, indexed.end)
    for stored, end in lines_from(files, path, begin):
        line = stored
        if upgrade is not None:
            line = upgrade.take(stored) if seq else upgrade.header
        text = first if seq == 0 else _text(dialect, seq, line)
        if text is not None and seq > behind:
            texts.append(text)
            chars += len(text.text)
        if seq == mark.seen_seq:
            if not fits_line(mark, line):
                break
            yield Indexed(mark.epoch, seq, end), texts
            return
        if chars > SEARCH_BATCH_CHARS:
            yield Indexed(mark.epoch, seq, end), texts
            texts, chars = [], 0
        seq += 1
    raise _Changed


def _header(files: Files, path: Path) -> tuple[Dialect, Text, Upgrade | None]:
    for line, _ in lines_from(files, path, 0):
        try:
            dialect, header = recognise(line)
        except BadHeader:
            break
        return dialect, Text(0, None, header_words(header)), dialect.upgrade(line)
    raise _Changed


def _text(dialect: Dialect, seq: int, line: bytes) -> Text | None:
    words = dialect.words(line)
    if not words:
        return None
    try:
        return Text(seq, dialect.row(line).id, words)
    except BadLine:
        return None
