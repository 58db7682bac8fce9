"""Search in what was said: updates the index of the lines, then asks the index.

Rule 1: an answer covers every append that was stored before the question. The catalog says how far
a session's lines go, and lines that the index lacks are read first.

Rule 2: nothing is indexed before the first search; from then on each search adds what is new.

Rule 3: a session without a file is never indexed, nor is a line that is not on disk yet.

Rule 4: the sessions of a root have at most ROOT_TEXT_CHARS_MAX characters in the index. The session whose
text has no room is left out, with all sessions of the root that were written before it.

Rule 5: the file of another agent is indexed up to AGENT_TEXT_CHARS_MAX. The catalog may have seen only a
part of such a file, so the size of the file says whether the index is behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import anyio
from anyio import to_thread
from msgspec import Struct
from msgspec.structs import replace

from sessiond.catalog.catalog import Catalog
from sessiond.catalog.fulltext import Found, Indexed, Text
from sessiond.catalog.query import Query
from sessiond.catalog.rows import NOTHING, Known
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
from sessiond.service.listing.root_rooms import RootRooms
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
            work = self._catch_up(there)
            # One session per step, so that a cancelled search stops.
            while (step := await to_thread.run_sync(next, work, None)) is not None:
                progress.report(*step, "sessions")
            return await to_thread.run_sync(self._index.find, match, there.wanted, limit)

    def _catch_up(self, there: _Stock) -> Iterator[tuple[int, int]]:
        """Index what the index lacks of the wanted sessions, and remove deleted ones.

        Yields behind each session that was read how many were, and how many there may be. Blocking.
        """
        indexed = self._index.indexed()
        self._index.forget(indexed.keys() - there.known.keys())
        places, wanted = RootRooms(self._roots), frozenset(there.wanted)
        concerned = [there.known[one] for one in there.known if one in wanted or one in indexed]
        behind = {
            known.session_id
            for known in concerned
            if known.session_id in wanted
            and not self._is_current(indexed.get(known.session_id), known, places)
        }
        done = 0
        for known in sorted(concerned, key=_newest_first):
            session_id = known.session_id
            found, room = indexed.get(session_id), places.at(known.path).room
            if room is not None and room.is_full:
                if found is not None:
                    self._index.forget([session_id])
            elif room is not None and found is not None and session_id not in behind:
                chars = found.chars
                if found.left_out and room.fits(chars):
                    # Other sessions are gone, so there is room again.
                    chars = self._add(known, places)
                elif not (found.left_out or room.fits(chars)):
                    self._leave_out(known, chars)
                room.take(chars)
            elif session_id in behind:
                chars = self._add(known, places)
                if room is not None:
                    room.take(chars)
                done += 1
                yield done, len(behind)

    def _is_current(self, indexed: Indexed | None, known: Known, places: RootRooms) -> bool:
        if indexed is None or indexed.epoch != known.mark.epoch:
            return False
        if places.at(known.path).is_agents:
            # Both are 0 for a file that was just being written.
            return 0 < indexed.end == _end_of(known)
        return indexed.seq == known.mark.seen_seq

    def _leave_out(self, known: Known, chars: int) -> None:
        mark = Indexed(known.mark.epoch, known.mark.seen_seq, _end_of(known), chars, left_out=True)
        self._index.put(known.session_id, mark, (), anew=True)

    def _add(self, known: Known, places: RootRooms) -> int:
        """Index the lines that the index lacks, if there is room; return the session's characters.

        Lists report a file that cannot be read.
        """
        place = places.at(known.path)
        indexed = self._index.indexed_of(known.session_id)
        if indexed is not None and not _goes_on(indexed, known, is_agents=place.is_agents):
            indexed = None
        anew = indexed is None
        chars = 0 if indexed is None else indexed.chars
        try:
            read = self._read_in_place if place.is_agents else partial(_read, self._files)
            for mark, texts in read(known, indexed):
                chars += sum(len(text.text) for text in texts)
                if place.room is not None and not place.room.fits(chars):
                    self._leave_out(known, chars)
                    return chars
                self._index.put(known.session_id, replace(mark, chars=chars), texts, anew=anew)
                anew = False
        except (_Changed, StorageError) as error:
            if isinstance(error, StorageError) and error.data()["errno"] != "ENOENT":
                raise
            # The file is not the one that lists know; the next scan of the folders finds out.
            self._index.forget([known.session_id])
            return 0
        return chars

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
    return indexed.epoch == known.mark.epoch and is_behind and not indexed.left_out


def _newest_first(known: Known) -> tuple[bool, int, str]:
    """Return a key by which the session comes first whose file was written last."""
    found = known.fingerprint
    # A file that is being written has no fingerprint.
    return found != NOTHING, -found.mtime_ns, known.session_id


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
