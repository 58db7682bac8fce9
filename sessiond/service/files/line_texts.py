"""The texts of stored lines, for the search index. Blocking.

Rule 1: a session's own lines are read up to the recorded line; those of a file of which the catalog has seen a
part, up to the last whole one.

Rule 2: the file of another agent is read up to AGENT_TEXT_CHARS_MAX. The catalog may have seen only a
part of such a file, so the size of the file says whether the index is behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from zlib import crc32

from msgspec.structs import replace

from sessiond.catalog.fulltext import Hit, Indexed, LinePlace, Text
from sessiond.catalog.rows import NOTHING, Known, Mark
from sessiond.dialects import recognise
from sessiond.dialects.base import BadHeader, BadLine, Dialect, Upgrade
from sessiond.dialects.words import header_text
from sessiond.errors import StorageError, TooLarge
from sessiond.journal.disk.failures import telling
from sessiond.journal.disk.files import Files
from sessiond.journal.disk.regular import open_regular
from sessiond.journal.scanning import lines_from
from sessiond.limits import AGENT_TEXT_CHARS_MAX, SEARCH_BATCH_BYTES, SEARCH_BATCH_CHARS
from sessiond.model.times import unix_ms
from sessiond.service.files.catalog_records import fingerprint_of, fits_line
from sessiond.service.files.profile import Profile
from sessiond.service.sources.agents.opencode.places import stored_place
from sessiond.service.store.listed import TextsChanged

LinesFrom = Callable[[int, int], Iterator[tuple[bytes, int]]]
"""Yields the lines from a seq on, which begins at an offset, with the offset where each line ends."""
Located = tuple[bytes, LinePlace | None]


class LineTexts:
    """The texts of one profile's files, and of files in roots."""

    def __init__(self, profile: Profile) -> None:
        self._files = profile.files
        self._agents = profile.agents
        self._roots = profile.roots

    def behind(self, known: Known, indexed: Indexed | None) -> Iterator[tuple[Indexed, list[Text]]]:
        """Yield the texts of a session's lines behind `indexed`, in batches.

        Raises TextsChanged, StorageError.
        """
        path = Path(known.path)
        if self._roots.agent_at(path):
            batches = self._read_in_place(path, known, indexed)
        else:
            batches = file_texts(self._files, known, indexed)
        # One thread at the place of the file reads each two batches: a small file has one.
        while some := self._files.visit(path, lambda: [*islice(batches, 2)]):
            yield from some
            if len(some) == 1:
                return

    def check(self, known: Known, hits: Sequence[Hit]) -> list[bool | None]:
        """Return whether the words of each hit are still in its file; None if that cannot be seen now.

        Reads the line of each hit once, or else looks at the whole file. Raises StorageError, SessionCorrupt.
        """
        path = Path(known.path)
        try:
            if stored_place(path) is not None:
                return [self._agents.recognise(path) is not None] * len(hits)
            with telling("read", path):
                fd = open_regular(self._files, path)
                try:
                    found = fingerprint_of(self._files.fstat(fd))
                    is_same = known.fingerprint in {found, NOTHING} or None
                    return [is_same if place is None else self._has(fd, place) for _, place in hits]
                finally:
                    self._files.close(fd)
        except StorageError as error:
            if error.data()["errno"] != "ENOENT":
                raise
            return [None] * len(hits)

    def _has(self, fd: int, place: LinePlace) -> bool:
        return crc32(self._files.pread(fd, place.size, place.at)) == place.mark

    def _read_in_place(
        self, path: Path, known: Known, indexed: Indexed | None
    ) -> Iterator[tuple[Indexed, list[Text]]]:
        """Yield the texts of the lines of another agent's file behind `indexed`, in batches."""
        with self._agents.hold(path) as held:
            found = self._agents.recognise(path, held)
            if found is None:
                raise TextsChanged
            lines = self._agents.searched(found, held)
        behind = -1 if indexed is None else indexed.seq
        texts: list[Text] = []
        chars = read = total = seq = 0
        for seq, (line, place) in enumerate(_readable(lines), 1):
            these = _texts(found.dialect, seq, line, place)
            size = sum(one.chars for one in these)
            total += size
            read += len(line) if place is None else place.size
            if total > AGENT_TEXT_CHARS_MAX:
                break
            if seq > behind:
                texts += these
                chars += size
            if chars > SEARCH_BATCH_CHARS or (read > SEARCH_BATCH_BYTES and seq > behind):
                # Only the last batch says that the file was read to its end.
                yield Indexed(known.mark.epoch, seq, 0), texts
                texts, chars, read = [], 0, 0
        yield Indexed(known.mark.epoch, max(seq, behind), known.end), texts


def _readable(lines: Iterator[Located]) -> Iterator[Located]:
    """Yield the lines of a file; of one that is too large, those at its beginning. Raises StorageError."""
    try:
        yield from lines
    except TooLarge:
        return
    except StorageError as error:
        if error.data()["errno"] != "EFBIG":
            raise


def file_texts(
    files: Files, known: Known, indexed: Indexed | None
) -> Iterator[tuple[Indexed, list[Text]]]:
    """Yield the texts of a file's lines behind `indexed`. Raises TextsChanged, StorageError."""
    path, mark = Path(known.path), known.mark
    return read_texts(
        lambda _seq, end: lines_from(files, path, end, half=not mark.is_part), mark, indexed
    )


def read_texts(
    lines_behind: LinesFrom, mark: Mark, indexed: Indexed | None
) -> Iterator[tuple[Indexed, list[Text]]]:
    """Yield the texts of the lines behind `indexed`, in batches, up to the marked line; of a part, up to the end.

    Raises TextsChanged.
    """
    dialect, first, upgrade = _header(lines_behind(0, 0))
    texts: list[Text] = []
    chars = read = 0
    behind = -1 if indexed is None else indexed.seq
    # The lines of an older version depend on the lines before them.
    seq, begin = (0, 0) if indexed is None or upgrade is not None else (behind + 1, indexed.end)
    for stored, end in lines_behind(seq, begin):
        line = stored
        read += len(stored)
        if upgrade is not None:
            line = upgrade.take(stored) if seq else upgrade.header
        if seq > behind:
            place = LinePlace(begin, len(stored), crc32(stored))
            these = [replace(first, place=place)] if seq == 0 else _texts(dialect, seq, line, place)
            texts += these
            chars += sum(one.chars for one in these)
        if indexed is not None and seq == behind and end != indexed.end:
            break
        if seq == mark.seen_seq and not mark.is_part:
            if not fits_line(mark, line):
                break
            yield Indexed(mark.epoch, seq, end), texts
            return
        if chars > SEARCH_BATCH_CHARS or (read > SEARCH_BATCH_BYTES and seq > behind):
            yield Indexed(mark.epoch, seq, end), texts
            texts, chars, read = [], 0, 0
        seq, begin = seq + 1, end
    else:
        if mark.is_part:
            yield Indexed(mark.epoch, seq - 1, begin), texts
            return
    raise TextsChanged


def _header(lines: Iterator[tuple[bytes, int]]) -> tuple[Dialect, Text, Upgrade | None]:
    for line, _ in lines:
        try:
            dialect, header = recognise(line)
        except BadHeader:
            break
        first = Text(0, None, header_text(header), unix_ms(header.timestamp) or 0)
        return dialect, first, dialect.upgrade(line)
    raise TextsChanged


def _texts(dialect: Dialect, seq: int, line: bytes, place: LinePlace | None = None) -> list[Text]:
    found = dialect.texts(line)
    if not found:
        return []
    try:
        entry_id = dialect.row(line).id
    except BadLine:
        return []
    time = unix_ms(dialect.timestamp(line)) or 0
    return [Text(seq, entry_id, said, time, place) for said in found]
